"""Servers outside of the run: the Hub, trackers, names."""
