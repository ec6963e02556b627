{{/*
The Ray head's pod.

call                                            returns
include "common.pod.head" (list $ WIRED) | fromJson    its pod template, with its wiring where WIRED is true
include "common.pod.newHead" (list $ WIRED)     the same, made anew
include "common.pod.headText" (list $ $storage $environment)    the pod template of a head without GPUs, as YAML
include "common.offGpuNodes" $ | fromJson       affinity of a pod without GPUs
include "common.headSelector" $ | fromJson      nodeSelector of a head without GPUs
include "common.gpuNodes" $ | int64             GPU nodes of the cluster
include "common.headCpus" $ | int64             CPUs of the head that Ray may use
*/}}

{{/* common.pod.head (list $ WIRED): a head without GPUs keeps away from GPU nodes, where it would take a worker's
     place. A head with GPUs takes a whole GPU node. Several templates of a chart ask for it, and it is made once. */}}
{{- define "common.pod.head" -}}
{{- if ne (len .) 2 }}{{ fail "common.pod.head takes (list $ WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $key := printf "common.pod.head %t" (index . 1) -}}
{{- if not (hasKey $root $key) }}{{ $_ := set $root $key (include "common.pod.newHead" .) }}{{ end -}}
{{- get $root $key -}}
{{- end }}

{{/* common.pod.newHead (list $ WIRED): only common.pod.head calls it. */}}
{{- define "common.pod.newHead" -}}
{{- if ne (len .) 2 }}{{ fail "common.pod.newHead takes (list $ WIRED)" }}{{ end -}}
{{- $wired := index . 1 -}}
{{- with index . 0 -}}
{{- $head := .Values.ray.head -}}
{{- $own := include "common.userEnvironment" (list . "head") | fromJsonArray -}}
{{- $own = append $own (dict "name" "GRPO_CLUSTER_FACTS" "value" (include "common.facts" .)) -}}
{{- /* The wiring of an offline stack has no token, and this head alone asks the hub; the program goes online. */ -}}
{{- if include "common.fetchesForOffline" . -}}
{{- $own = append $own (include "common.fromSecret" (list "HF_TOKEN" .Values.huggingface.secret) | fromJson) -}}
{{- end -}}
{{- $own = append $own (dict "name" "RAY_JOB_STOP_WAIT_TIME_S" "value" (toString (int64 $head.jobStopSeconds))) -}}
{{- /* KubeRay sets it too, with the token. An operator before 1.5.1 does not, and Ray must not start without. */ -}}
{{- if .Values.ray.tokenAuth.enabled -}}
{{- $own = append $own (dict "name" "RAY_AUTH_MODE" "value" "token") -}}
{{- end -}}
{{- $template := dict -}}
{{- if $head.gpus.enabled -}}
{{- if not .Values.accelerator.gpusPerNode -}}
{{- fail (printf "ray.head.gpus.enabled: accelerator %s has no GPUs. Switch it off" .Values.accelerator.name) -}}
{{- end -}}
{{- $template = include "common.pod.gpu" (list . "head" $own) | fromJson -}}
{{- else -}}
{{- $environment := concat (include "common.environment" . | fromJsonArray) $own -}}
{{- $storage := include "common.podVolumes" . | fromJson -}}
{{- $template = include "common.pod.headText" (list . $storage $environment) | fromYaml -}}
{{- end -}}
{{- $wiring := include "common.wiring" (list . $head.gpus.enabled) | fromJson -}}
{{- $pod := include "common.pod.complete" (list . $template "head" $wiring $wired) -}}
{{- if and (include "common.isAutopilot" .) (not $head.gpus.enabled) -}}
{{- include "common.checkAutopilotDisk" ($pod | fromJson) -}}
{{- end -}}
{{- $pod -}}
{{- end -}}
{{- end }}

{{/* common.pod.headText (list $ STORAGE ENVIRONMENT): STORAGE is what common.podVolumes returns. */}}
{{- define "common.pod.headText" -}}
{{- if ne (len .) 3 }}{{ fail "common.pod.headText takes (list $ STORAGE ENVIRONMENT)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $storage := index . 1 -}}
metadata:
  labels:
    grpo-charts/stack: {{ $root.Values.stack.name | quote }}
    grpo-charts/owner: {{ include "common.owner" $root | quote }}
    grpo-charts/part: head
  annotations: {{ merge (include "common.stayAnnotations" $root | fromJson) $storage.annotations | toJson }}
spec:
  serviceAccountName: {{ include "common.name" (list $root "serviceAccount") | quote }}
  # Nothing in it calls the Kubernetes API. Buckets ask the metadata server who the pod is.
  automountServiceAccountToken: false
  # A Service of the namespace that is named vllm would set VLLM_PORT, which vLLM reads.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "common.graceSeconds" $root }}
  {{- with include "common.headSelector" $root | fromJson }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with include "common.offGpuNodes" $root | fromJson }}
  affinity: {{ toJson . }}
  {{- end }}
  containers:
    - name: ray-head
      image: {{ include "common.image" $root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson (index . 2) }}
      resources:
        {{- include "common.resources" (pick $root.Values.ray.head "cpu" "memory" "ephemeralStorage") | nindent 8 }}
      securityContext: {{ include "common.securityContext" (list $root "plain") }}
      lifecycle: {{ include "common.lifecycle" (list $root "head") }}
      volumeMounts: {{ toJson $storage.mounts }}
  volumes: {{ toJson $storage.volumes }}
{{- end }}

{{/* common.offGpuNodes $: Autopilot puts no pod without GPUs on a GPU node, and limits node affinity. NVIDIA's feature
     discovery sets nvidia.com/gpu.present. */}}
{{- define "common.offGpuNodes" -}}
{{- $affinity := dict -}}
{{- if not (include "common.isAutopilot" .) -}}
{{- $label := .Values.accelerator.gpuNodeLabel | default "nvidia.com/gpu.present" -}}
{{- $term := dict "matchExpressions" (list (dict "key" $label "operator" "DoesNotExist")) -}}
{{- $required := dict "nodeSelectorTerms" (list $term) -}}
{{- $affinity = dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end }}

{{/* common.headSelector $: Autopilot's default class gives a pod 30 cores and 110 GiB at most. */}}
{{- define "common.headSelector" -}}
{{- $selector := dict -}}
{{- if include "common.isAutopilot" . -}}
{{- $head := .Values.ray.head -}}{{- $sidecar := .Values.ray.gcsfuse -}}
{{- $cpu := int $head.cpu -}}
{{- $memory := include "common.mebibytes" $head.memory | int64 -}}
{{- if (include "common.podVolumes" . | fromJson).annotations -}}
{{- $cpu = add $cpu (int $sidecar.cpu) -}}
{{- $memory = add $memory (include "common.mebibytes" $sidecar.memory | int64) -}}
{{- end -}}
{{- if or (gt $cpu 30) (gt $memory 112640) -}}
{{- $_ := set $selector .Values.platform.keys.computeClass "Balanced" -}}
{{- end -}}
{{- end -}}
{{- toJson $selector -}}
{{- end }}

{{/* common.gpuNodes $: the workers, and the head where it has GPUs. */}}
{{- define "common.gpuNodes" -}}
{{- $nodes := add (int64 .Values.ray.workers.replicas) (ternary 1 0 .Values.ray.head.gpus.enabled) -}}
{{- if lt $nodes 1 -}}
{{- fail (print "the cluster has no GPU: set ray.workers.replicas to 1 or more, or ray.head.gpus.enabled to true "
  "[job/no-gpu-node]") -}}
{{- end -}}
{{- $nodes -}}
{{- end }}

{{/* common.headCpus $: 0 keeps tasks and actors off the head. A head with GPUs offers all its CPUs. */}}
{{- define "common.headCpus" -}}
{{- if .Values.ray.head.gpus.enabled -}}
{{- .Values.accelerator.worker.cpu -}}
{{- else -}}
{{- int64 .Values.ray.head.numCpus -}}
{{- end -}}
{{- end }}
