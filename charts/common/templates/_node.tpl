{{/*
The GPU node that a pod asks for.

call                                                    returns
include "common.wiring.placement" $ | fromJson          {nodeSelector, tolerations} of a pod on a GPU node
include "common.wiring.capacity" $ | fromJson           the part of it that follows from platform.capacity
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
{{- $bought := include "common.wiring.capacity" . | fromJson -}}
{{- $selector = merge $selector $bought.nodeSelector -}}
{{- $tolerations = concat $tolerations $bought.tolerations -}}
{{- dict "nodeSelector" $selector "tolerations" $tolerations | toJson -}}
{{- end }}

{{/* common.wiring.capacity $: on Standard the node pool carries the reservation, the placement policy and the driver;
     Autopilot makes the node by the pod's selector. common.checkCapacity refuses other clusters. */}}
{{- define "common.wiring.capacity" -}}
{{- $capacity := .Values.platform.capacity -}}{{- $keys := .Values.platform.keys -}}
{{- $selector := dict -}}{{- $tolerations := list -}}
{{- if eq $capacity.kind "spot" -}}
{{- $_ := set $selector $keys.spot "true" -}}
{{- $tolerations = append $tolerations (dict "key" $keys.spot "operator" "Exists" "effect" "NoSchedule") -}}
{{- else if eq $capacity.kind "flex-start" -}}
{{- $_ := set $selector $keys.flexStart "true" -}}
{{- else if eq $capacity.kind "queued" -}}
{{- $taint := dict "key" $keys.queued "operator" "Equal" "value" "true" "effect" "NoSchedule" -}}
{{- $tolerations = append $tolerations $taint -}}
{{- end -}}
{{- if include "common.isAutopilot" . -}}
{{- if and .Values.accelerator.gpusPerNode (int64 .Values.images.training.minimumDriver) -}}
{{- $_ := set $selector $keys.driverVersion "latest" -}}
{{- end -}}
{{- with $capacity.reservation -}}
{{- $_ := set $selector $keys.reservation . -}}
{{- $_ := set $selector $keys.reservationAffinity "specific" -}}
{{- end -}}
{{- with $capacity.placementPolicy -}}
{{- $_ := set $selector $keys.placementGroup (include "common.owner" $) -}}
{{- $_ := set $selector $keys.placementPolicy . -}}
{{- end -}}
{{- end -}}
{{- dict "nodeSelector" $selector "tolerations" $tolerations | toJson -}}
{{- end }}
