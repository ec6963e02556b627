"""A stream of manifests as text."""
