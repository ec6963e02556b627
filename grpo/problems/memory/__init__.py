"""The memory of GPUs, of nodes and of Ray."""
