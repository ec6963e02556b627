module grpo-charts/tools/jobset

go 1.26.0

// Only its CRD is used: the server judges wired JobSets by it.
require sigs.k8s.io/jobset v0.12.0
