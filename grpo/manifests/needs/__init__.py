"""What rendered objects reference but do not create: the references, those without a target, and a command for each."""
