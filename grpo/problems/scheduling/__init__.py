"""Where pods fit, and what keeps them from being scheduled."""
