"""Batches and micro batches: what must divide what."""
