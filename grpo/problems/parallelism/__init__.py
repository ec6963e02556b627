"""Parallel sizes, backends, and the options that they exclude."""
