"""Generated files: chart schemas, default values, the values reference and the pruned Kubernetes schemas."""
