"""Batches and micro batches: which sizes must divide which."""
