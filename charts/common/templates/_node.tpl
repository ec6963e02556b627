{{/*
The GPU node that a pod asks for.

call                                                    returns
include "common.wiring.placement" $ | fromJson          {nodeSelector, tolerations} of a pod on a GPU node
include "common.wiring.capacity" $ | fromJson           the part of it that follows from platform.capacity, on GKE
*/}}

{{/* common.wiring.placement $: by the machine, its processor, its network, and how it is bought. A machine without GPUs
     has no taint for them. */}}
{{- define "common.wiring.placement" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $selector := dict -}}{{- $tolerations := list -}}
{{- if $accelerator.gpusPerNode -}}
{{- $tolerations = append $tolerations (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- if eq ($accelerator.architecture | default "amd64") "arm64" -}}
{{- $_ := set $selector "kubernetes.io/arch" "arm64" -}}
{{- $taint := dict "key" "kubernetes.io/arch" "operator" "Equal" "value" "arm64" "effect" "NoSchedule" -}}
{{- $tolerations = append $tolerations $taint -}}
{{- end -}}
{{- range $key, $taint := include "common.entries" ($accelerator.tolerations | default dict) | fromJson -}}
{{- $which := dict "operator" "Exists" -}}
{{- if hasKey $taint "value" }}{{ $which = dict "operator" "Equal" "value" $taint.value }}{{ end -}}
{{- $tolerations = append $tolerations (merge (dict "key" $key "effect" $taint.effect) $which) -}}
{{- end -}}
{{- $selector = merge $selector (include "common.entries" $accelerator.nodeSelector | fromJson) -}}
{{- range include "common.claimedDevices" . | fromJson -}}
{{- $selector = merge $selector (.nodeSelector | default dict) -}}
{{- end -}}
{{- if include "common.isGoogle" . -}}
{{- $bought := include "common.wiring.capacity" . | fromJson -}}
{{- $selector = merge $selector $bought.nodeSelector -}}
{{- $tolerations = concat $tolerations $bought.tolerations -}}
{{- end -}}
{{- dict "nodeSelector" $selector "tolerations" $tolerations | toJson -}}
{{- end }}

{{/* common.wiring.capacity $: on Standard the node pool carries the reservation, the placement policy and the driver;
     on Autopilot GKE makes the node by the pod's selector. */}}
{{- define "common.wiring.capacity" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- $selector := dict -}}{{- $tolerations := list -}}
{{- if has $capacity.kind (list "spot" "flex-start") -}}
{{- $_ := set $selector (printf "cloud.google.com/gke-%s" $capacity.kind) "true" -}}
{{- end -}}
{{- if eq $capacity.kind "spot" -}}
{{- $taint := dict "key" "cloud.google.com/gke-spot" "operator" "Exists" "effect" "NoSchedule" -}}
{{- $tolerations = append $tolerations $taint -}}
{{- end -}}
{{- if eq $capacity.kind "queued" -}}
{{- $taint := dict "key" "cloud.google.com/gke-queued" "operator" "Equal" "value" "true" "effect" "NoSchedule" -}}
{{- $tolerations = append $tolerations $taint -}}
{{- end -}}
{{- if include "common.isAutopilot" . -}}
{{- if and .Values.accelerator.gpusPerNode (int64 .Values.images.training.minimumDriver) -}}
{{- $_ := set $selector "cloud.google.com/gke-gpu-driver-version" "latest" -}}
{{- end -}}
{{- with $capacity.reservation -}}
{{- $_ := set $selector "cloud.google.com/reservation-name" . -}}
{{- $_ := set $selector "cloud.google.com/reservation-affinity" "specific" -}}
{{- end -}}
{{- with $capacity.placementPolicy -}}
{{- $_ := set $selector "cloud.google.com/gke-placement-group" (include "common.owner" $) -}}
{{- $_ := set $selector "cloud.google.com/placement-policy-name" . -}}
{{- end -}}
{{- end -}}
{{- dict "nodeSelector" $selector "tolerations" $tolerations | toJson -}}
{{- end }}
