"""What `grpo plan` plans, and how it displays the plan."""
