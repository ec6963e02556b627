"""Memory of GPUs, of nodes and of Ray."""
