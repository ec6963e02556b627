"""Commands that write, render and compare a stack."""
