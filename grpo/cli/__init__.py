"""The command line: `grpo`, with one module per command, and the post-renderer `grpo-post-render`."""
