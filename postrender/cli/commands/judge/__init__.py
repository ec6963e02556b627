"""Commands that judge."""
