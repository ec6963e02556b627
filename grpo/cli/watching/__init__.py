"""What `grpo watch` shows of a training."""
