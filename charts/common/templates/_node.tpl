{{/* common.wiring.placement: nodeSelector and tolerations of a pod that takes a GPU node, as JSON: the machine, its processor, and how
     it is bought (platform.capacity). A machine without GPUs has no taint.
                                                                  include "common.wiring.placement" $ | fromJson */}}
{{- define "common.wiring.placement" -}}
{{- $accelerator := .Values.accelerator -}}{{- $capacity := .Values.platform.capacity -}}
{{- $selector := dict -}}{{- $tolerations := list -}}
{{- if $accelerator.gpusPerNode }}{{ $tolerations = append $tolerations (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule") }}{{ end -}}
{{- if eq ($accelerator.architecture | default "amd64") "arm64" -}}
{{- $_ := set $selector "kubernetes.io/arch" "arm64" -}}
{{- $tolerations = append $tolerations (dict "key" "kubernetes.io/arch" "operator" "Equal" "value" "arm64" "effect" "NoSchedule") -}}
{{- end -}}
{{- if include "common.isGoogle" . -}}
{{- with $accelerator.label }}{{ $_ := set $selector "cloud.google.com/gke-accelerator" . }}{{ end -}}
{{- if has $capacity.kind (list "spot" "flex-start") }}{{ $_ := set $selector (printf "cloud.google.com/gke-%s" $capacity.kind) "true" }}{{ end -}}
{{- if eq $capacity.kind "spot" }}{{ $tolerations = append $tolerations (dict "key" "cloud.google.com/gke-spot" "operator" "Exists" "effect" "NoSchedule") }}{{ end -}}
{{- if eq $capacity.kind "queued" }}{{ $tolerations = append $tolerations (dict "key" "cloud.google.com/gke-queued" "operator" "Equal" "value" "true" "effect" "NoSchedule") }}{{ end -}}
{{- if eq .Values.network.mode "dranet" }}{{ $_ := set $selector "gke.networks.io/accelerator-network-profile" "auto" }}{{ end -}}
{{- if include "common.isAutopilot" . -}}
{{- if and $accelerator.gpusPerNode (int64 .Values.images.training.minimumDriver) }}{{ $_ := set $selector "cloud.google.com/gke-gpu-driver-version" "latest" }}{{ end -}}
{{- /* On Standard the node pool carries these; here GKE makes the node by them. */ -}}
{{- with $capacity.reservation -}}
{{- $_ := set $selector "cloud.google.com/reservation-name" . -}}
{{- $_ := set $selector "cloud.google.com/reservation-affinity" "specific" -}}
{{- end -}}
{{- with $capacity.placementPolicy -}}
{{- $_ := set $selector "cloud.google.com/gke-placement-group" (include "common.owner" $) -}}
{{- $_ := set $selector "cloud.google.com/placement-policy-name" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "nodeSelector" $selector "tolerations" $tolerations | toJson -}}
{{- end }}

{{/* common.wiring.checkNode: the init container that looks at the node, as YAML; nothing where there is nothing to look at. bash says nothing when the script that BASH_ENV names is
     missing, and NCCL would then run without its settings.
                                                                  include "common.wiring.checkNode" (list $ $hostMounts) | fromYaml */}}
{{- define "common.wiring.checkNode" -}}
{{- $hostMounts := index . 1 -}}
{{- with index . 0 -}}
{{- $newer := ternary "the pods ask for the newest that Autopilot has" "make the node pool with gpu-driver-version=latest" (ne (include "common.isAutopilot" .) "") -}}
{{- $driver := ternary .Values.images.training.minimumDriver 0 (ne (int64 .Values.accelerator.gpusPerNode) 0) -}}
{{- $script := include "common.wiring.checkScript" (dict "nccl" .Values.accelerator.nccl "mode" .Values.network.mode "newer" $newer "minimumDriver" $driver) -}}
{{- if $script -}}
name: check-node
image: {{ include "common.image" . | quote }}
imagePullPolicy: IfNotPresent
command: [/bin/bash, -c]
args:
  - {{ toJson $script }}
resources:
  {{- include "common.resources" (dict "cpu" "1" "memory" "1Gi" "ephemeralStorage" "1Gi") | nindent 2 }}
securityContext: {{ include "common.bareSecurityContext" . }}
volumeMounts: {{ toJson $hostMounts }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.wiring.checkScript: the init container's script. It fails with a sentence where the node lacks what NCCL or the image's CUDA
     needs; nothing where there is nothing to look at.
                                                                  include "common.wiring.checkScript" (dict "nccl" $accelerator.nccl "mode" "dranet" "minimumDriver" 580) */}}
{{- define "common.wiring.checkScript" -}}
{{- $needed := ternary list (list .nccl.environmentScript .nccl.tunerConfig | compact) (eq .mode "none") -}}
{{- if $needed -}}
for file in {{ join " " $needed }}; do
  if [ ! -r "$file" ]; then
    echo "check-node: $file is not readable: the GPUDirect RDMA installer has not finished on this node, or is for another machine family" >&2
    exit 1
  fi
done
{{ with .nccl.environmentScript -}}
if ! bash -n {{ . }}; then
  echo "check-node: {{ . }} is not a script that bash can read: the installer was interrupted" >&2
  exit 1
fi
{{ end -}}
{{- end -}}
{{- if int64 .minimumDriver -}}
driver=$(grep -m 1 -oE '[0-9]{3,}[.][0-9]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)
if [ -z "$driver" ]; then
  echo "check-node: the version of the NVIDIA driver cannot be read here; the image needs {{ int64 .minimumDriver }} or newer"
elif [ "${driver%%.*}" -lt {{ int64 .minimumDriver }} ]; then
  echo "check-node: the node has NVIDIA driver $driver, and the image's CUDA needs {{ int64 .minimumDriver }} or newer: {{ .newer }}" >&2
  exit 1
fi
{{ end -}}
{{- if or $needed (int64 .minimumDriver) -}}
echo "check-node: driver folders and NCCL settings are in place"
{{- end -}}
{{- end }}
