"""What a pod asks of Kubernetes."""
