module grpo-charts/tools/gke-crds

go 1.26.0

require github.com/GoogleCloudPlatform/gke-networking-api v0.2.11
