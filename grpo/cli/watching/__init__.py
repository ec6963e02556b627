"""What `grpo watch` shows of a training run."""
