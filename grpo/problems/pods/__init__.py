"""What a pod requests from Kubernetes."""
