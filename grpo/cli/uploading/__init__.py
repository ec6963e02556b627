"""Data files of this machine, and how they get onto the volume of a stack."""
