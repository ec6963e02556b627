"""Sum up what runs, and say what does not run waits for."""
