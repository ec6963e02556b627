"""Secrets in values, objects and logs."""
