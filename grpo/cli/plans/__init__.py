"""What `grpo plan` plans, and how it shows it."""
