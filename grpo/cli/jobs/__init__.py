"""The jobs of a stack: what the charts make of them, and a working directory as one more."""
