"""How a process ends."""
