"""How a run operates: attempts, deadlines, the guard, variables, tracking."""
