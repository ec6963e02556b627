{{/*
The GPU node: which one a pod asks for, and the init container that checks it.

call                                                    returns
include "common.wiring.placement" $ | fromJson          {nodeSelector, tolerations} of a pod on a GPU node
include "common.wiring.capacity" $ | fromJson           the part of it that follows from platform.capacity, on GKE
include "common.wiring.checkNode" (list $ $hostMounts) | fromYaml    the init container; empty where nothing is checked
include "common.wiring.checkScript" (list $ 580)        its shell script
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

{{/* common.wiring.checkNode (list $ HOST_MOUNTS): bash says nothing when the script that BASH_ENV names is missing,
     and NCCL would then run without its settings. */}}
{{- define "common.wiring.checkNode" -}}
{{- if ne (len .) 2 }}{{ fail "common.wiring.checkNode takes (list $ HOST_MOUNTS)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $hasGpus := ne (int64 $root.Values.accelerator.gpusPerNode) 0 -}}
{{- $driver := ternary $root.Values.images.training.minimumDriver 0 $hasGpus -}}
{{- with include "common.wiring.checkScript" (list $root $driver) -}}
name: check-node
image: {{ include "common.image" $root | quote }}
imagePullPolicy: IfNotPresent
command: [/bin/bash, -c]
args:
  - {{ toJson . }}
resources:
  {{- include "common.resources" (dict "cpu" "1" "memory" "1Gi" "ephemeralStorage" "1Gi") | nindent 2 }}
securityContext: {{ include "common.bareSecurityContext" $root }}
volumeMounts: {{ toJson (index $ 1) }}
{{- end -}}
{{- end }}

{{/* common.wiring.checkScript (list $ MINIMUM_DRIVER): it fails with a sentence where the node lacks what NCCL or the
     image's CUDA needs. Empty where there is nothing to check. */}}
{{- define "common.wiring.checkScript" -}}
{{- if ne (len .) 2 }}{{ fail "common.wiring.checkScript takes (list $ MINIMUM_DRIVER)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $driver := index . 1 | int64 -}}
{{- $nccl := $root.Values.accelerator.nccl -}}
{{- $newer := "install a newer driver on the nodes" -}}
{{- if include "common.isGoogle" $root }}{{ $newer = "make the node pool with gpu-driver-version=latest" }}{{ end -}}
{{- if include "common.isAutopilot" $root }}{{ $newer = "the pods ask for the newest that Autopilot has" }}{{ end -}}
{{- $needed := list $nccl.environmentScript $nccl.tunerConfig | compact -}}
{{- if eq $root.Values.network.mode "none" }}{{ $needed = list }}{{ end -}}
{{- $broken := "the image has a broken copy" -}}
{{- $missing := "the image must hold the NCCL plugin of this machine, because no installer puts it on the node" -}}
{{- $folders := list -}}
{{- range include "common.entries" $root.Values.accelerator.hostPaths | fromJson -}}
{{- $mounted := printf "%s/" .mountPath -}}
{{- if hasPrefix $mounted (first $needed | default "") -}}
{{- $broken = "the installer was interrupted" -}}
{{- $missing = "the GPUDirect RDMA installer has not finished on this node, or is for another machine family" -}}
{{- end -}}
{{- end -}}
{{- range splitList ":" $root.Values.accelerator.libraryPath -}}
{{- $folder := . -}}
{{- range include "common.entries" $root.Values.accelerator.hostPaths | fromJson -}}
{{- if hasPrefix (printf "%s/" .mountPath) $folder }}{{ $folders = append $folders $folder }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $needed -}}
for file in {{ join " " $needed }}; do
  if [ ! -r "$file" ]; then
    echo "check-node: $file is not readable: {{ $missing }}" >&2
    exit 1
  fi
done
{{ with $nccl.environmentScript -}}
if ! bash -n {{ . }}; then
  echo "check-node: {{ . }} is not a script that bash can read: {{ $broken }}" >&2
  exit 1
fi
{{ end -}}
{{- /* Autopilot's installer brings an NCCL. PyTorch from PyPI finds its own first; NVIDIA's images do not. */ -}}
{{- with $folders -}}
for folder in {{ join " " . }}; do
  if [ -e "$folder/libnccl.so.2" ]; then
    echo "check-node: warning: $folder/libnccl.so.2 is the node's NCCL, and LD_LIBRARY_PATH has it before the {{ "" -}}
    image's: helm test says which of the two is loaded" >&2
  fi
done
{{ end -}}
{{- end -}}
{{- if $driver -}}
driver=$(grep -m 1 -oE '[0-9]{3,}[.][0-9]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)
if [ -z "$driver" ]; then
  echo "check-node: the version of the NVIDIA driver cannot be read here; the image needs {{ $driver }} or newer"
elif [ "${driver%%.*}" -lt {{ $driver }} ]; then
  echo "check-node: the node has NVIDIA driver $driver, and the image's CUDA needs {{ $driver }} or newer: {{ "" -}}
  {{ $newer }}" >&2
  exit 1
fi
{{ end -}}
{{- if or $needed $driver -}}
echo "check-node: driver folders and NCCL settings are in place"
{{- end -}}
{{- end }}
