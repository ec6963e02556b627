"""Optimizers, learning rates and their schedules."""
