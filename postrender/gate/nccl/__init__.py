"""What NCCL reads in a pod: its variables, its tuner table and its plugin's script."""
