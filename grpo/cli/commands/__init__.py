"""The commands of `grpo`: each module holds one, in a function of the module's name."""
