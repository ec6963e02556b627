"""Parallel sizes, backends and what they exclude."""
