{{/* common.wiring.environment: NCCL's settings on a GPU node, as JSON list. The script comes by BASH_ENV, because KubeRay starts Ray by
     bash and its start command stays untouched; NCCL_NET makes NCCL fail where the plugin is missing, instead of using TCP.
                                                                  include "common.wiring.environment" $ | fromJsonArray */}}
{{- define "common.wiring.environment" -}}
{{- $nccl := .Values.accelerator.nccl -}}
{{- $environment := list -}}
{{- if ne .Values.network.mode "none" -}}
{{- range $name, $value := dict "BASH_ENV" $nccl.environmentScript "NCCL_NET" $nccl.net "NCCL_TUNER_CONFIG_PATH" $nccl.tunerConfig -}}
{{- if $value }}{{ $environment = append $environment (dict "name" $name "value" $value) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $environment = concat $environment (list
  (dict "name" "NCCL_SOCKET_IFNAME" "value" $nccl.socketInterface)
  (dict "name" "GLOO_SOCKET_IFNAME" "value" $nccl.socketInterface)) -}}
{{- range $name, $value := include "common.entries" ($nccl.env | default dict) | fromJson -}}
{{- $environment = append $environment (dict "name" $name "value" $value) -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.wiring.volumes: driver folders of the node and /dev/shm, as JSON {volumes, mounts, hostMounts}. type Directory: without it a
     missing folder is created empty and hides the driver. GKE's nodes alone have these folders. The folder of the RDMA plugin, which
     holds its script, is left out where there is no RDMA.        include "common.wiring.volumes" $ | fromJson */}}
{{- define "common.wiring.volumes" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $volumes := list (dict "name" "shared-memory" "emptyDir" (dict "medium" "Memory" "sizeLimit" (include "common.quantity" $accelerator.sharedMemory))) -}}
{{- $mounts := list -}}
{{- $paths := ternary (include "common.entries" $accelerator.hostPaths | fromJson) dict (ne (include "common.isGoogle" .) "") -}}
{{- range $name := keys $paths | sortAlpha -}}
{{- $path := get $paths $name -}}
{{- $ofPlugin := hasPrefix (printf "%s/" $path.mountPath) ($accelerator.nccl.environmentScript | default "") -}}
{{- if not (and $ofPlugin (eq $.Values.network.mode "none")) -}}
{{- $volumes = append $volumes (dict "name" (printf "host-%s" $name) "hostPath" (dict "path" $path.hostPath "type" "Directory")) -}}
{{- $mounts = append $mounts (dict "name" (printf "host-%s" $name) "mountPath" $path.mountPath "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- dict "volumes" $volumes "hostMounts" $mounts "mounts" (append $mounts (dict "name" "shared-memory" "mountPath" "/dev/shm")) | toJson -}}
{{- end }}

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
