{{/*
The init container that checks the GPU node before Ray starts.

call                                                    returns
include "common.wiring.checkNode" (list $ $hostMounts) | fromYaml    the init container; empty where nothing is checked
include "common.wiring.checkScript" (list $ 580)        its shell script
*/}}

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
{{- if hasPrefix (printf "%s/" .mountPath) $folder }}{{ $folders = append $folders $folder | uniq }}{{ end -}}
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
