"""What the API server accepts, and what must exist first."""
