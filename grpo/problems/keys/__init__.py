"""Keys of the values and of the frameworks: unknown, of another type, out of range, without effect."""
