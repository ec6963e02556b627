"""Volumes, paths and space."""
