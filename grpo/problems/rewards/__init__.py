"""Rewards: names, calls, user code."""
