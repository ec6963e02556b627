"""Kueue's queues."""
