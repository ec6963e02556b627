"""Rewards: names, calls, own code."""
