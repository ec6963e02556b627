"""Commands that work with a run."""
