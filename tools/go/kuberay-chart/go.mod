module grpo-charts/tools/kuberay-chart

go 1.26.0

// Only its chart ray-cluster is used: the post-renderer is tried on it.
require github.com/ray-project/kuberay v1.6.2
