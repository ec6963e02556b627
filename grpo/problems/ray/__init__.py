"""Ray clusters and jobs, and the operator that runs them."""
