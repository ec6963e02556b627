module grpo-charts/tools/kuberay-1.5

go 1.26.0

// Only its CRDs are used: what the charts say about KubeRay 1.5 is tried against them.
require github.com/ray-project/kuberay/ray-operator v1.5.1
