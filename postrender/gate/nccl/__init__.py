"""What NCCL reads in a pod: its variables, its tuner table and the script of its plugin."""
