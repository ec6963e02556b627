{{/* common.pod.head: pod template of the Ray head, as JSON, with its wiring where WIRED is true. Without GPUs it keeps away from GPU nodes,
     where it would take the place of a worker; with GPUs it is one.
                                                                  include "common.pod.head" (list $ WIRED) | fromJson */}}
{{- define "common.pod.head" -}}
{{- $wired := index . 1 -}}
{{- with index . 0 -}}
{{- $head := .Values.ray.head -}}
{{- $own := include "common.userEnvironment" (list . "head") | fromJsonArray -}}
{{- $own = append $own (dict "name" "GRPO_CLUSTER_FACTS" "value" (include "common.facts" .)) -}}
{{- $own = append $own (dict "name" "RAY_JOB_STOP_WAIT_TIME_S" "value" (toString (int64 $head.jobStopSeconds))) -}}
{{- $template := dict -}}
{{- if $head.gpus.enabled -}}
{{- if not .Values.accelerator.gpusPerNode }}{{ fail (printf "ray.head.gpus.enabled: accelerator %s has no GPUs. Switch it off" .Values.accelerator.name) }}{{ end -}}
{{- $template = include "common.pod.gpu" (list . "head" $own) | fromJson -}}
{{- else -}}
{{- $environment := concat (include "common.environment" . | fromJsonArray) $own -}}
{{- $storage := include "common.podVolumes" . | fromJson -}}
{{- $template = include "common.pod.headText" (dict "root" . "storage" $storage "environment" $environment "head" $head) | fromYaml -}}
{{- end -}}
{{- $wiring := include "common.wiring" (list . $head.gpus.enabled) | fromJson -}}
{{- $finished := include "common.pod.finished" (list . $template "head" $wiring $wired) -}}
{{- if and (include "common.isAutopilot" .) (not $head.gpus.enabled) }}{{ include "common.checkAutopilotDisk" ($finished | fromJson) }}{{ end -}}
{{- $finished -}}
{{- end -}}
{{- end }}

{{/* common.offGpuNodes: affinity of a pod without GPUs, as JSON. On Autopilot a pod without GPUs lands on no GPU node anyway, and node
     affinity is limited there.                                   include "common.offGpuNodes" $ | fromJson */}}
{{- define "common.offGpuNodes" -}}
{{- $affinity := dict -}}
{{- if not (include "common.isAutopilot" .) -}}
{{- $label := ternary "cloud.google.com/gke-accelerator" "nvidia.com/gpu.present" (ne (include "common.isGoogle" .) "") -}}
{{- $term := dict "matchExpressions" (list (dict "key" $label "operator" "DoesNotExist")) -}}
{{- $affinity = dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" (list $term))) -}}
{{- end -}}
{{- toJson $affinity -}}
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

{{/* common.capacityAnnotations: what a ProvisioningRequest needs to know, on the object that Kueue admits, as YAML.
                                                                  include "common.capacityAnnotations" $ */}}
{{- define "common.capacityAnnotations" -}}
{{- if eq .Values.platform.capacity.kind "queued" -}}
provreq.kueue.x-k8s.io/maxRunDurationSeconds: {{ int64 .Values.platform.capacity.maxRunDurationSeconds | quote }}
{{- end -}}
{{- end }}

{{/* common.kueueLabels: labels by which Kueue admits an object that owns pods, as YAML; never on a job that runs on a cluster that exists.
                                                                  include "common.kueueLabels" $ */}}
{{- define "common.kueueLabels" -}}
{{- $kueue := .Values.ray.kueue -}}
{{- if and (not $kueue.queue) (or $kueue.priorityClass $kueue.topology.required $kueue.topology.preferred) -}}
{{- fail "ray.kueue: priority and topology mean nothing without a queue. Set ray.kueue.queue" -}}
{{- end -}}
{{- with $kueue.queue }}
kueue.x-k8s.io/queue-name: {{ . | quote }}
{{- end }}
{{- with $kueue.priorityClass }}
kueue.x-k8s.io/priority-class: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "common.pod.headText" -}}
metadata:
  labels:
    grpo-charts/stack: {{ .root.Values.stack.name | quote }}
    grpo-charts/owner: {{ include "common.owner" .root | quote }}
    grpo-charts/part: head
  annotations: {{ toJson .storage.annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") | quote }}
  {{- with include "common.headSelector" .root | fromJson }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with include "common.offGpuNodes" .root | fromJson }}
  affinity: {{ toJson . }}
  {{- end }}
  containers:
    - name: ray-head
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" (pick .head "cpu" "memory" "ephemeralStorage") | nindent 8 }}
      securityContext: {{ include "common.securityContext" (list .root "plain") }}
      volumeMounts: {{ toJson .storage.mounts }}
  volumes: {{ toJson .storage.volumes }}
{{- end }}
