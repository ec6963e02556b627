"""What rendered objects name and do not make: the references, what nothing makes, and a command for each."""
