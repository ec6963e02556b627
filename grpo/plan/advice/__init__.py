"""What to change so that a run fits, and a run's limits."""
