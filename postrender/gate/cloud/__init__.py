"""What a pod names of another cloud than the one of its machine."""
