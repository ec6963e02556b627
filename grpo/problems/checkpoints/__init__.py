"""Checkpoints and validation."""
