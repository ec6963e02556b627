{{/* common.pod.worker: pod template of the GPU workers, as JSON.
                                                                  include "common.pod.worker" $ | fromJson */}}
{{- define "common.pod.worker" -}}
{{- $template := include "common.pod.gpu" (list . "worker" (include "common.userEnvironment" (list . "workers") | fromJsonArray)) | fromJson -}}
{{- include "common.overlay" (list . $template "workers") -}}
{{- end }}

{{/* common.pod.gpu: pod template of a pod that takes a whole GPU node, as JSON. The Ray container is the first one: GKE mounts the RDMA
     device files into the first container only, and KubeRay takes the first for Ray.
                                                                  include "common.pod.gpu" (list $ "worker" $environment) | fromJson */}}
{{- define "common.pod.gpu" -}}
{{- $root := index . 0 -}}
{{- $storage := include "common.podVolumes" $root | fromJson -}}
{{- $wiring := include "common.wiring.volumes" $root | fromJson -}}
{{- include "common.checkArchitecture" $root -}}
{{- $template := include "common.pod.gpuText" (dict
  "root" $root
  "part" (index . 1)
  "accelerator" $root.Values.accelerator
  "annotations" (include "common.merge" (list (include "common.wiring.annotations" $root | fromJson) $storage.annotations) | fromJson)
  "environment" (concat (include "common.environment" $root | fromJsonArray) (include "common.wiring.environment" $root | fromJsonArray) (index . 2))
  "volumes" (concat $wiring.volumes $storage.volumes)
  "mounts" (concat $wiring.mounts $storage.mounts)
  "placement" (include "common.wiring.placement" $root | fromJson)
  "claims" (include "common.wiring.claims" $root | fromJsonArray)
  "hostMounts" $wiring.hostMounts) | fromYaml -}}
{{- if hasKey $template "Error" }}{{ fail (printf "a pod template is not YAML: %s" $template.Error) }}{{ end -}}
{{- $_ := set $template.metadata "annotations" (merge (include "common.topology" $root | fromJson) ($template.metadata.annotations | default dict)) -}}
{{- toJson $template -}}
{{- end }}

{{/* common.topology: annotations by which Kueue places the GPU pods near each other, as JSON. A head with GPUs is one of them: both pod
     sets then form one group.                                    include "common.topology" $ | fromJson */}}
{{- define "common.topology" -}}
{{- $topology := .Values.ray.kueue.topology -}}{{- $annotations := dict -}}
{{- if and $topology.required $topology.preferred }}{{ fail "ray.kueue.topology: give required or preferred, not both" }}{{ end -}}
{{- range $kind, $level := $topology -}}
{{- if $level -}}
{{- $_ := set $annotations (printf "kueue.x-k8s.io/podset-%s-topology" $kind) $level -}}
{{- if and $.Values.ray.head.gpus.enabled (int64 $.Values.ray.workers.replicas) }}{{ $_ := set $annotations "kueue.x-k8s.io/podset-group-name" "gpu" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{- define "common.pod.gpuText" -}}
metadata:
  labels:
    grpo-charts/stack: {{ .root.Values.stack.name | quote }}
    grpo-charts/owner: {{ include "common.owner" .root | quote }}
    grpo-charts/part: {{ .part | quote }}
  annotations: {{ toJson .annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") | quote }}
  {{- with .placement.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- if not .accelerator.gpusPerNode }}
  {{- with include "common.offGpuNodes" .root | fromJson }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- with .placement.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  initContainers:
    # bash says nothing when the script that BASH_ENV names is missing, and NCCL would then run without its settings.
    - name: check-node
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      command: [/bin/bash, -c]
      args:
        - {{ include "common.checkNode" (dict "nccl" .accelerator.nccl "mode" .root.Values.network.mode "newer" (ternary "the pods ask for the newest that Autopilot has" "make the node pool with gpu-driver-version=latest" (ne (include "common.isAutopilot" .root) "")) "minimumDriver" (ternary .root.Values.images.training.minimumDriver 0 (ne (int64 .accelerator.gpusPerNode) 0))) | toJson }}
      resources:
        {{- include "common.resources" (dict "cpu" "1" "memory" "1Gi" "ephemeralStorage" "1Gi") | nindent 8 }}
      securityContext: {{ include "common.bareSecurityContext" .root }}
      volumeMounts: {{ toJson .hostMounts }}
  containers:
    - name: ray-{{ .part }}
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" (merge (dict "gpus" (int64 .accelerator.gpusPerNode) "claims" .claims) .accelerator.worker) | nindent 8 }}
      securityContext: {{ include "common.securityContext" (list .root "gpu") }}
      volumeMounts: {{ toJson .mounts }}
  {{- with .claims }}
  resourceClaims: {{ toJson . }}
  {{- end }}
  volumes: {{ toJson .volumes }}
{{- end }}

{{/* common.checkNode: the init container's script. It fails with a sentence where the node lacks what NCCL or the image's CUDA needs.
                                                                  include "common.checkNode" (dict "nccl" $accelerator.nccl "mode" "dranet" "minimumDriver" 580) */}}
{{- define "common.checkNode" -}}
{{- $needed := list .nccl.environmentScript .nccl.tunerConfig | compact -}}
{{- if and (ne .mode "none") $needed -}}
for file in {{ join " " $needed }}; do
  if [ ! -r "$file" ]; then
    echo "check-node: $file is not readable: the GPUDirect RDMA installer has not finished on this node, or is for another machine family" >&2
    exit 1
  fi
done
{{- with .nccl.environmentScript }}
if ! bash -n {{ . }}; then
  echo "check-node: {{ . }} is not a script that bash can read: the installer was interrupted" >&2
  exit 1
fi
{{- end }}
{{ end -}}
{{- if int64 .minimumDriver }}
driver=$(grep -m 1 -oE '[0-9]{3,}[.][0-9]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)
if [ -z "$driver" ]; then
  echo "check-node: the version of the NVIDIA driver cannot be read here; the image needs {{ int64 .minimumDriver }} or newer"
elif [ "${driver%%.*}" -lt {{ int64 .minimumDriver }} ]; then
  echo "check-node: the node has NVIDIA driver $driver, and the image's CUDA needs {{ int64 .minimumDriver }} or newer: {{ .newer }}" >&2
  exit 1
fi
{{- end }}
echo "check-node: driver folders and NCCL settings are in place"
{{- end }}

{{/* common.checkArchitecture: fail where the image does not exist for the machine's processor.
                                                                  include "common.checkArchitecture" $ */}}
{{- define "common.checkArchitecture" -}}
{{- $image := .Values.images.training -}}
{{- if and (eq (.Values.accelerator.architecture | default "amd64") "arm64") (not $image.arm64) -}}
{{- fail (printf "%s has arm64 nodes, and %s is not known to exist for arm64: choose an image that does, and set images.training.arm64 to true" .Values.accelerator.name (include "common.image" .)) -}}
{{- end -}}
{{- end }}
