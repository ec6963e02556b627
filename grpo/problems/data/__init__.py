"""Data sets, their columns, and prompts."""
