{{/*
The two groups of a Ray cluster, for the RayCluster of the raycluster chart and for the one inside an ephemeral RayJob.

Both are written as the operator itself writes them (numOfHosts, scaleStrategy, canonical quantities). Otherwise the
operator's first write of a RayJob takes over workerGroupSpecs, and the next server-side apply conflicts with it.

call                                                    returns
include "common.headGroup" (list $ WIRED)               headGroupSpec, as YAML
include "common.workerGroup" (list $ 2 WIRED)           the one entry of workerGroupSpecs, as YAML
include "common.checkCluster" $                         nothing; fails where the cluster cannot work
*/}}

{{/* common.headGroup (list $ WIRED): the wiring is left out where WIRED is false. */}}
{{- define "common.headGroup" -}}
{{- if ne (len .) 2 }}{{ fail "common.headGroup takes (list $ WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $gpus := ternary (int64 $root.Values.accelerator.gpusPerNode) 0 $root.Values.ray.head.gpus.enabled -}}
rayStartParams:
  dashboard-host: 0.0.0.0
  # A head without GPUs is not on the workers' network either: by default Ray places no actor on it.
  num-cpus: {{ include "common.headCpus" $root | quote }}
  # The monitor can remove workers that it counts as surplus, even with autoscaling off.
  no-monitor: "true"
  num-gpus: {{ $gpus | quote }}
template:
  {{- include "common.pod.head" . | fromJson | toYaml | nindent 2 }}
{{- end }}

{{/* common.workerGroup (list $ REPLICAS WIRED): one group of REPLICAS GPU nodes, as an entry of a list. */}}
{{- define "common.workerGroup" -}}
{{- if ne (len .) 3 }}{{ fail "common.workerGroup takes (list $ REPLICAS WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $replicas := index . 1 | int64 -}}
- groupName: gpu
  # The size is fixed. With equal numbers KubeRay neither scales nor clamps it.
  replicas: {{ $replicas }}
  minReplicas: {{ $replicas }}
  maxReplicas: {{ $replicas }}
  numOfHosts: 1
  scaleStrategy: {}
  rayStartParams:
    num-gpus: {{ int64 $root.Values.accelerator.gpusPerNode | quote }}
  template:
    {{- include "common.pod.worker" (list $root (index . 2)) | fromJson | toYaml | nindent 4 }}
{{- end }}

{{/* common.checkCluster $: what Autopilot refuses, and a token where Ray knows none: the operator would say so only
     in an event. */}}
{{- define "common.checkCluster" -}}
{{- include "common.checkAutopilot" . -}}
{{- $_ := include "common.gpuNodes" . -}}
{{- /* It fails for interfaces that clash, also where the charts do not wire. */ -}}
{{- $_ = include "common.interfaces" . -}}
{{- $version := .Values.images.training.rayVersion -}}
{{- if and .Values.ray.tokenAuth.enabled (semverCompare "<2.52.0" $version) -}}
{{- fail (printf (print "ray.tokenAuth.enabled needs Ray 2.52.0 or newer, but images.training has %s: switch it off, "
  "or choose a newer image") $version) -}}
{{- end -}}
{{- end }}
