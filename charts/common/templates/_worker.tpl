{{/* common.pod.worker: pod template of the GPU workers, as JSON, with its wiring where WIRED is true.
                                                                  include "common.pod.worker" (list $ WIRED) | fromJson */}}
{{- define "common.pod.worker" -}}
{{- $root := index . 0 -}}
{{- $template := include "common.pod.gpu" (list $root "worker" (include "common.userEnvironment" (list $root "workers") | fromJsonArray)) | fromJson -}}
{{- include "common.pod.finished" (list $root $template "workers" (include "common.wiring" (list $root true) | fromJson) (index . 1)) -}}
{{- end }}

{{/* common.pod.finished: a pod template with what the user lays over it, and then with its wiring where WIRED is true, as JSON.
                                                                  include "common.pod.finished" (list $ $template "workers" $wiring WIRED) */}}
{{- define "common.pod.finished" -}}
{{- $template := include "common.overlay" (list (index . 0) (index . 1) (index . 2) (index . 3)) -}}
{{- if index . 4 }}{{ include "common.wiring.apply" (list ($template | fromJson) (index . 3)) }}{{ else }}{{ $template }}{{ end -}}
{{- end }}

{{/* common.pod.gpu: pod template of a pod that takes a whole GPU node, without its wiring, as JSON. The Ray container is the first one: GKE
     mounts the RDMA device files into the first container only, and KubeRay takes the first for Ray.
                                                                  include "common.pod.gpu" (list $ "worker" $environment) | fromJson */}}
{{- define "common.pod.gpu" -}}
{{- $root := index . 0 -}}
{{- include "common.checkArchitecture" $root -}}
{{- $template := include "common.pod.gpuText" (dict
  "root" $root
  "part" (index . 1)
  "accelerator" $root.Values.accelerator
  "storage" (include "common.podVolumes" $root | fromJson)
  "environment" (concat (include "common.environment" $root | fromJsonArray) (index . 2) | default list)) | fromYaml -}}
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
  annotations: {{ toJson .storage.annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") | quote }}
  {{- if not .accelerator.gpusPerNode }}
  {{- with include "common.offGpuNodes" .root | fromJson }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- end }}
  containers:
    - name: ray-{{ .part }}
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" (merge (dict "gpus" (int64 .accelerator.gpusPerNode)) .accelerator.worker) | nindent 8 }}
      securityContext: {{ include "common.securityContext" (list .root "gpu") }}
      volumeMounts: {{ toJson .storage.mounts }}
  volumes: {{ toJson .storage.volumes }}
{{- end }}

{{/* common.checkArchitecture: fail where the image does not exist for the machine's processor.
                                                                  include "common.checkArchitecture" $ */}}
{{- define "common.checkArchitecture" -}}
{{- $image := .Values.images.training -}}
{{- if and (eq (.Values.accelerator.architecture | default "amd64") "arm64") (not $image.arm64) -}}
{{- fail (printf "%s has arm64 nodes, and %s is not known to exist for arm64: choose an image that does, and set images.training.arm64 to true" .Values.accelerator.name (include "common.image" .)) -}}
{{- end -}}
{{- end }}
