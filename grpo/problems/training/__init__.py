"""Signs of a training that goes wrong."""
