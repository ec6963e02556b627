"""The nodes and pods that the run gets, and clusters created by another release."""
