"""Post-rendering of Kubernetes manifests: wiring, and the gate that rejects what would fail on the cluster."""

__version__ = "0.1.0"
