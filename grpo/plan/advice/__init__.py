"""What to change so that a run fits, and the limits of a run."""
