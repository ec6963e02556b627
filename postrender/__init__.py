"""Post-rendering of Kubernetes manifests: wiring, and the gate that refuses what would fail on the cluster."""

__version__ = "0.1.0"
