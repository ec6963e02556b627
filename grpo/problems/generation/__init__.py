"""The generation engine: sizes, arguments, rollouts."""
