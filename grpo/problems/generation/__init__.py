"""The engine that generates: sizes, arguments, rollouts."""
