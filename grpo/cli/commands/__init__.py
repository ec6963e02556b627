"""The commands of `grpo`: each module defines one command, in a function with the module's name."""
