"""Where pods find room, and what keeps them out."""
