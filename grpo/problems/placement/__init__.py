"""Nodes and pods that the run gets, and the cluster that another release made."""
