"""How a run goes on: attempts, deadlines, the guard, variables, tracking."""
