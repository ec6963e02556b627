"""Rules over the log of a training: each is a sign of jobs/runlog/signs.py, with its reason and what to do."""
