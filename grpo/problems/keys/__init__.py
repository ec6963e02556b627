"""Keys in the values and of the frameworks: unknown, of the wrong type, out of range, without effect."""
