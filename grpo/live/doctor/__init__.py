"""Whether a cluster has what a stack needs: one module a topic, each with its checks."""
