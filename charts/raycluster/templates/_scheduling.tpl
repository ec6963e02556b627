{{/*
Pods beside the cluster: TensorBoard and the tests.

call                                                returns
include "raycluster.scheduling" $ | fromJson        the fields of a pod spec that say where it runs, and as whom
*/}}

{{/* raycluster.scheduling $: off the GPU nodes, best beside the head, whose node has the image already. Where the
     head has no GPUs, the user's fields for its pod count too. Where it has GPUs, there may be no other node. */}}
{{- define "raycluster.scheduling" -}}
{{- $user := include "common.entries" .Values.ray.head.podSpec | fromJson -}}
{{- $affinity := include "common.offGpuNodes" . | fromJson -}}
{{- $result := dict "serviceAccountName" (include "common.name" (list . "serviceAccount")) -}}
{{- if .Values.ray.head.gpus.enabled -}}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $affinity -}}
{{- $preferred := list (dict "weight" 100 "preference" .) -}}
{{- $node := dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred -}}
{{- $_ := set $result "affinity" (dict "nodeAffinity" $node) -}}
{{- end -}}
{{- merge $result (pick $user "imagePullSecrets") | toJson -}}
{{- else -}}
{{- $head := dict "matchLabels" (dict "grpo-charts/owner" (include "common.owner" .) "grpo-charts/part" "head") -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $head -}}
{{- $near := dict "weight" 100 "podAffinityTerm" $term -}}
{{- $_ := set $affinity "podAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $near)) -}}
{{- $_ := set $result "affinity" $affinity -}}
{{- include "common.merge" (list $result (pick $user "affinity" "imagePullSecrets" "nodeSelector" "tolerations")) -}}
{{- end -}}
{{- end }}
