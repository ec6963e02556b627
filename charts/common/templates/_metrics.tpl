{{/*
How Prometheus finds the pods of a Ray cluster. Both charts with pods have these objects; ray.metrics.scrape chooses
one.

call                                            returns
include "common.podMonitor.spec" $              spec of the PodMonitor (Prometheus operator), as YAML
include "common.podMonitoring.spec" $           spec of the PodMonitoring (Google's managed Prometheus), as YAML
include "common.metricsSelector" $              the pods of both, as YAML

KubeRay declares the port `metrics` (8080) on each Ray container, so no template of ours does. Ray's and KubeRay's
dashboards select a cluster by the label ray_io_cluster.
*/}}

{{/* common.podMonitor.spec $: the Prometheus operator turns a pod's label ray.io/cluster into ray_io_cluster. */}}
{{- define "common.podMonitor.spec" -}}
{{ include "common.metricsSelector" . }}
podTargetLabels: [ray.io/cluster]
podMetricsEndpoints:
  - port: metrics
    interval: 30s
{{- end }}

{{/* common.podMonitoring.spec $: the same for Google. The port has a name, so that the label container is set too. */}}
{{- define "common.podMonitoring.spec" -}}
{{ include "common.metricsSelector" . }}
targetLabels:
  fromPod:
    - from: ray.io/cluster
      to: ray_io_cluster
endpoints:
  - port: metrics
    interval: 30s
{{- end }}

{{/* common.metricsSelector $: head and workers of this cluster, not the pods of the hooks. */}}
{{- define "common.metricsSelector" -}}
selector:
  matchLabels:
    grpo-charts/owner: {{ include "common.owner" . | quote }}
{{- end }}
