"""Detect a terminal, draw on it and show progress there; pipes, files and CI get plain text."""
