"""Data files on this machine, and how they get onto a stack's volume."""
