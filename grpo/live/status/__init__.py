"""Summarize what is running, and explain what the other parts are waiting for."""
