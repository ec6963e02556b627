"""A stack's jobs: the one that the charts render, and a working directory submitted as an additional job."""
