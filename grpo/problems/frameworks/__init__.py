"""What the problems of one framework have in common."""
