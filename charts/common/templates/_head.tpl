{{/* common.pod.head: pod template of the Ray head, as JSON. Without GPUs it keeps away from GPU nodes, where it would take the place of a
     worker; with GPUs it is one.                                 include "common.pod.head" $ | fromJson */}}
{{- define "common.pod.head" -}}
{{- $head := .Values.ray.head -}}
{{- $own := include "common.userEnvironment" (list . "head") | fromJsonArray -}}
{{- $own = append $own (dict "name" "GRPO_CLUSTER_FACTS" "value" (include "common.facts" .)) -}}
{{- $template := dict -}}
{{- if $head.gpus.enabled -}}
{{- $template = include "common.pod.gpu" (list . "head" $own) | fromJson -}}
{{- else -}}
{{- $environment := concat (include "common.environment" . | fromJsonArray) $own -}}
{{- $storage := include "common.podVolumes" . | fromJson -}}
{{- $template = include "common.pod.headText" (dict "root" . "storage" $storage "environment" $environment "head" $head) | fromYaml -}}
{{- end -}}
{{- include "common.overlay" (list $template $head) -}}
{{- end }}

{{/* common.gpuNodes: GPU nodes of the cluster: the workers, and the head where it has GPUs.
                                                                  include "common.gpuNodes" $ | int64 */}}
{{- define "common.gpuNodes" -}}
{{- $nodes := add (int64 .Values.ray.workers.replicas) (ternary 1 0 .Values.ray.head.gpus.enabled) -}}
{{- if lt $nodes 1 }}{{ fail "the cluster has no GPU: set ray.workers.replicas to 1 or more, or ray.head.gpus.enabled to true" }}{{ end -}}
{{- $nodes -}}
{{- end }}

{{/* common.headCpus: CPUs of the head on which Ray may put something, 0 for none. A head with GPUs offers all that it has.
                                                                  include "common.headCpus" $ | int64 */}}
{{- define "common.headCpus" -}}
{{- if .Values.ray.head.gpus.enabled }}{{ .Values.accelerator.worker.cpu }}{{ else }}{{ int64 .Values.ray.head.numCpus }}{{ end -}}
{{- end }}

{{/* common.kueueLabels: labels by which Kueue admits an object that owns pods, as YAML; never on a job that runs on a cluster that exists.
                                                                  include "common.kueueLabels" $ */}}
{{- define "common.kueueLabels" -}}
{{- $kueue := .Values.ray.kueue -}}
{{- if and (not $kueue.queue) (or $kueue.priorityClass $kueue.topology.required $kueue.topology.preferred) -}}
{{- fail "ray.kueue: priority and topology mean nothing without a queue. Set ray.kueue.queue" -}}
{{- end -}}
{{- with $kueue.queue }}
kueue.x-k8s.io/queue-name: {{ . }}
{{- end }}
{{- with $kueue.priorityClass }}
kueue.x-k8s.io/priority-class: {{ . }}
{{- end }}
{{- end }}

{{/* common.offGpuNodes: affinity of a pod without GPUs, away from the nodes that have them, as YAML.
                                                                  include "common.offGpuNodes" $ */}}
{{- define "common.offGpuNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: {{ ternary "cloud.google.com/gke-accelerator" "nvidia.com/gpu.present" (ne (include "common.isGoogle" .) "") }}
            operator: DoesNotExist
{{- end }}

{{- define "common.pod.headText" -}}
metadata:
  labels:
    grpo-charts/stack: {{ .root.Values.stack.name }}
    grpo-charts/owner: {{ include "common.owner" .root }}
    grpo-charts/part: head
  annotations: {{ toJson .storage.annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") }}
  affinity:
    {{- include "common.offGpuNodes" .root | nindent 4 }}
  containers:
    - name: ray-head
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" (pick .head "cpu" "memory" "ephemeralStorage") | nindent 8 }}
      volumeMounts: {{ toJson .storage.mounts }}
  volumes: {{ toJson .storage.volumes }}
{{- end }}
