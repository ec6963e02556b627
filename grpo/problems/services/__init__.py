"""Servers outside the run: the Hub, trackers, DNS."""
