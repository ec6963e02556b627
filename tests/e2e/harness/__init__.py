"""A Kubernetes control plane, fake GPU nodes and a real Ray head, all on the loopback interface."""
