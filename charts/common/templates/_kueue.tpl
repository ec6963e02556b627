{{/*
What Kueue reads: on the object that it admits, and on the GPU pods.

call                                            returns
include "common.kueueLabels" $                  labels of the object that Kueue admits, as YAML
include "common.capacityAnnotations" $          its annotations for a ProvisioningRequest, as YAML
include "common.topology" $ | fromJson          annotations by which Kueue places the GPU pods near each other
include "common.notes.queue" $                  lines of NOTES.txt about the queue, empty without one
*/}}

{{/* common.kueueLabels $: never on a job that runs on an existing cluster. */}}
{{- define "common.kueueLabels" -}}
{{- $kueue := .Values.ray.kueue -}}
{{- if and (not $kueue.queue) (or $kueue.priorityClass $kueue.topology.required $kueue.topology.preferred) -}}
{{- fail "ray.kueue: priority and topology have no effect without a queue. Set ray.kueue.queue" -}}
{{- end -}}
{{- with $kueue.queue }}
kueue.x-k8s.io/queue-name: {{ . | quote }}
{{- end }}
{{- with $kueue.priorityClass }}
kueue.x-k8s.io/priority-class: {{ . | quote }}
{{- end }}
{{- end }}

{{/* common.capacityAnnotations $: empty unless platform.capacity.kind is queued. */}}
{{- define "common.capacityAnnotations" -}}
{{- if eq .Values.platform.capacity.kind "queued" -}}
provreq.kueue.x-k8s.io/maxRunDurationSeconds: {{ int64 .Values.platform.capacity.maxRunDurationSeconds | quote }}
{{- end -}}
{{- end }}

{{/* common.topology $: a head with GPUs is one of the GPU pods: the group name joins both pod sets. */}}
{{- define "common.topology" -}}
{{- $topology := .Values.ray.kueue.topology -}}{{- $annotations := dict -}}
{{- if and $topology.required $topology.preferred -}}
{{- fail "ray.kueue.topology has both required and preferred: give one of them" -}}
{{- end -}}
{{- range $kind, $level := $topology -}}
{{- if $level -}}
{{- $_ := set $annotations (printf "kueue.x-k8s.io/podset-%s-topology" $kind) $level -}}
{{- if and $.Values.ray.head.gpus.enabled (int64 $.Values.ray.workers.replicas) -}}
{{- $_ := set $annotations "kueue.x-k8s.io/podset-group-name" "gpu" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{/* common.notes.queue $: Helm 3 only knows client-side apply. Helm 4 keeps the way in which a release was applied
     last. */}}
{{- define "common.notes.queue" -}}
{{- with .Values.ray.kueue.queue }}
Kueue starts the pods when LocalQueue {{ . }} of this namespace has room for all of them.
{{- if semverCompare ">=4.0.0-0" $.Capabilities.HelmVersion.Version }}
Kueue writes into the pod templates, so server-side apply, the default of Helm 4, refuses every later upgrade
(conflict with "kueue"). Add --server-side=false to the install, or to the next upgrade: Helm then stays with it.
{{- end }}
{{- end }}
{{- end }}
