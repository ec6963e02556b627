"""Rules over charts: their files, and how they render."""
