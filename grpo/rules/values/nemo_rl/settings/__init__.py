"""Rules over single settings: numbers out of range, names, and settings that make a run learn nothing."""
