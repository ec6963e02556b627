"""Commands that check, plan and explain."""
