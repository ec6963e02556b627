"""Commands that query a cluster."""
