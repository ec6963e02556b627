{{/* raycluster.scheduling: where a helper's pod may run (TensorBoard, a test), as JSON: off the GPU nodes, best beside the head, whose
     node has the image already; with what the user says of the head's own pod, if that is one without GPUs. Where the head has GPUs,
     there may be no other node.                                  include "raycluster.scheduling" $ | fromJson */}}
{{- define "raycluster.scheduling" -}}
{{- $user := include "common.entries" .Values.ray.head.podSpec | fromJson -}}
{{- $affinity := include "common.offGpuNodes" . | fromJson -}}
{{- $result := dict "serviceAccountName" (include "common.name" (list . "serviceAccount")) -}}
{{- if .Values.ray.head.gpus.enabled -}}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $affinity -}}
{{- $_ := set $result "affinity" (dict "nodeAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "preference" .)))) -}}
{{- end -}}
{{- merge $result (pick $user "imagePullSecrets") | toJson -}}
{{- else -}}
{{- $head := dict "matchLabels" (dict "grpo-charts/owner" (include "common.owner" .) "grpo-charts/part" "head") -}}
{{- $near := dict "weight" 100 "podAffinityTerm" (dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $head) -}}
{{- $_ := set $affinity "podAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $near)) -}}
{{- $_ := set $result "affinity" $affinity -}}
{{- include "common.merge" (list $result (pick $user "affinity" "imagePullSecrets" "nodeSelector" "tolerations")) -}}
{{- end -}}
{{- end }}
