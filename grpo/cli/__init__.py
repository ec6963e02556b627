"""The command line: `grpo`, one module a command, and the post-renderer `grpo-post-render`."""
