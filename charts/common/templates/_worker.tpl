{{/* common.pod.worker: pod template of the GPU workers, as JSON. The Ray container is the first one: GKE mounts the RDMA device files
     into the first container only, and KubeRay takes the first for Ray.
                                                                  include "common.pod.worker" $ | fromJson */}}
{{- define "common.pod.worker" -}}
{{- $storage := include "common.podVolumes" . | fromJson -}}
{{- $wiring := include "common.wiring.volumes" . | fromJson -}}
{{- $template := include "common.pod.workerText" (dict
  "root" .
  "accelerator" .Values.accelerator
  "annotations" (include "common.merge" (list (include "common.wiring.annotations" . | fromJson) $storage.annotations) | fromJson)
  "environment" (concat (include "common.environment" . | fromJsonArray) (include "common.wiring.environment" . | fromJsonArray) (include "common.userEnvironment" (list . "workers") | fromJsonArray))
  "volumes" (concat $wiring.volumes $storage.volumes)
  "mounts" (concat $wiring.mounts $storage.mounts)
  "claims" (include "common.wiring.claims" . | fromJsonArray)
  "hostMounts" $wiring.hostMounts) | fromYaml -}}
{{- include "common.overlay" (list $template .Values.ray.workers) -}}
{{- end }}

{{- define "common.pod.workerText" -}}
metadata:
  labels:
    grpo-charts/stack: {{ .root.Values.stack.name }}
    grpo-charts/part: worker
  annotations: {{ toJson .annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") }}
  nodeSelector:
    cloud.google.com/gke-accelerator: {{ .accelerator.label }}
  tolerations:
    - key: nvidia.com/gpu
      operator: Exists
      effect: NoSchedule
  initContainers:
    # bash says nothing when the script that BASH_ENV names is missing, and NCCL would then run without its settings.
    - name: check-node
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      command: [/bin/bash, -c]
      args:
        - {{ include "common.checkNode" (dict "nccl" .accelerator.nccl "mode" .root.Values.network.mode "minimumDriver" .root.Values.images.training.minimumDriver) | toJson }}
      resources:
        {{- include "common.resources" (dict "cpu" "1" "memory" "1Gi" "ephemeralStorage" "1Gi") | nindent 8 }}
      volumeMounts: {{ toJson .hostMounts }}
  containers:
    - name: ray-worker
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" (merge (dict "gpus" (int64 .accelerator.gpusPerNode) "claims" .claims) .accelerator.worker) | nindent 8 }}
      securityContext:
        capabilities:
          add: [IPC_LOCK]
      volumeMounts: {{ toJson .mounts }}
  {{- with .claims }}
  resourceClaims: {{ toJson . }}
  {{- end }}
  volumes: {{ toJson .volumes }}
{{- end }}

{{/* common.checkNode: the init container's script. It fails with a sentence where the node lacks what NCCL or the image's CUDA needs.
                                                                  include "common.checkNode" (dict "nccl" $accelerator.nccl "mode" "dranet" "minimumDriver" 580) */}}
{{- define "common.checkNode" -}}
{{- if ne .mode "none" -}}
for file in {{ .nccl.environmentScript }} {{ .nccl.tunerConfig }}; do
  if [ ! -r "$file" ]; then
    echo "check-node: $file is not readable: the GPUDirect RDMA installer has not finished on this node, or is for another machine family" >&2
    exit 1
  fi
done
if ! bash -n {{ .nccl.environmentScript }}; then
  echo "check-node: {{ .nccl.environmentScript }} is not a script that bash can read: the installer was interrupted" >&2
  exit 1
fi
{{ end -}}
{{- if int64 .minimumDriver }}
driver=$(grep -m 1 -oE '[0-9]{3,}[.][0-9]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)
if [ -z "$driver" ]; then
  echo "check-node: the version of the NVIDIA driver cannot be read here; the image needs {{ int64 .minimumDriver }} or newer"
elif [ "${driver%%.*}" -lt {{ int64 .minimumDriver }} ]; then
  echo "check-node: the node has NVIDIA driver $driver, and the image's CUDA needs {{ int64 .minimumDriver }} or newer: make the node pool with gpu-driver-version=latest" >&2
  exit 1
fi
{{- end }}
echo "check-node: driver folders and NCCL settings are in place"
{{- end }}
