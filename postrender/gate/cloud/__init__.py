"""What a pod references of a cloud that its machine is not in."""
