"""Post-rendering, validation and planning for GRPO training stacks on Kubernetes."""

__version__ = "0.1.0"
