"""Nodes and their GPUs."""
