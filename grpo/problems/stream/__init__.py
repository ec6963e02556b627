"""A stream of manifests, treated as text."""
