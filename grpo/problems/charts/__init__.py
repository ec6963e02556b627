"""Helm charts of any origin."""
