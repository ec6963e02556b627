{{/*
The NVLink domain of machines whose NVLink spans nodes (accelerator.nvlinkDomainNodes). NVIDIA's DRA driver makes the
claim template that the pods name.

call                                            returns
include "common.nvlink.name" $                  the name of the ComputeDomain and of its claim template
include "common.nvlink.nodes" $ | int64         GPU nodes of the cluster that this chart makes
include "common.nvlink.check" $                 nothing; fails where the cluster is larger than a domain
*/}}

{{/* common.nvlink.name $: the spec of a ComputeDomain is immutable, so another number of nodes is another domain.
     */}}
{{- define "common.nvlink.name" -}}
{{- printf "%s-nvlink-%d" (include "common.owner" .) (include "common.nvlink.nodes" . | int64) -}}
{{- end }}

{{/* common.nvlink.nodes $: the cluster of a task other than training has only the nodes that the task needs. */}}
{{- define "common.nvlink.nodes" -}}
{{- $replicas := .Values.ray.workers.replicas -}}
{{- if eq .Chart.Name "grpo-job" }}{{ $replicas = include "grpo.ephemeralReplicas" . }}{{ end -}}
{{- add (int64 $replicas) (ternary 1 0 .Values.ray.head.gpus.enabled) -}}
{{- end }}

{{/* common.nvlink.check $: passes where NVLink ends at the node. */}}
{{- define "common.nvlink.check" -}}
{{- with .Values.accelerator.nvlinkDomainNodes -}}
{{- $nodes := include "common.nvlink.nodes" $ | int64 -}}
{{- if gt $nodes (int64 .) -}}
{{- fail (printf (print "the cluster has %d GPU nodes, but an NVLink domain of %s has at most %d: lower "
  "ray.workers.replicas, or set accelerator.nvlinkDomainNodes to null and accelerator.nccl.env.NCCL_MNNVL_ENABLE to "
  "'0', so that the nodes use their network") $nodes $.Values.accelerator.name (int64 .)) -}}
{{- end -}}
{{- end -}}
{{- end }}
