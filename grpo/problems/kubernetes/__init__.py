"""What the API server takes, and what has to be there before."""
