{{/*
Pods that take a whole GPU node: the workers, and a head with GPUs.

call                                                    returns
include "common.pod.worker" (list $ WIRED)              pod template of the workers, as JSON
include "common.pod.newWorker" (list $ WIRED)           the same, made anew
include "common.pod.gpu" (list $ "worker" $environment) a pod template on a GPU node, without its wiring, as JSON
include "common.pod.gpuText" (list $ "worker" $storage $environment)    the same, as YAML
include "common.pod.complete" (list $ $template "workers" $wiring WIRED)    with user's parts and wiring, as JSON
include "common.checkArchitecture" $                    nothing; fails where the image does not exist for the processor
*/}}

{{/* common.pod.worker (list $ WIRED): the wiring is left out where WIRED is false. Several templates of a chart ask for
     it, and it is made once. */}}
{{- define "common.pod.worker" -}}
{{- if ne (len .) 2 }}{{ fail "common.pod.worker takes (list $ WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $key := printf "common.pod.worker %t" (index . 1) -}}
{{- if not (hasKey $root $key) }}{{ $_ := set $root $key (include "common.pod.newWorker" .) }}{{ end -}}
{{- get $root $key -}}
{{- end }}

{{/* common.pod.newWorker (list $ WIRED): only common.pod.worker calls it. */}}
{{- define "common.pod.newWorker" -}}
{{- if ne (len .) 2 }}{{ fail "common.pod.newWorker takes (list $ WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $environment := include "common.userEnvironment" (list $root "workers") | fromJsonArray -}}
{{- $template := include "common.pod.gpu" (list $root "worker" $environment) | fromJson -}}
{{- $wiring := include "common.wiring" (list $root true) | fromJson -}}
{{- include "common.pod.complete" (list $root $template "workers" $wiring (index . 1)) -}}
{{- end }}

{{/* common.pod.complete (list $ TEMPLATE PART WIRING WIRED): the user's parts first, then the wiring in front of
     them. PART is head or workers. WIRING also tells what the user may not set, so it is needed where WIRED is false.
     */}}
{{- define "common.pod.complete" -}}
{{- if ne (len .) 5 }}{{ fail "common.pod.complete takes (list $ TEMPLATE PART WIRING WIRED)" }}{{ end -}}
{{- $wiring := index . 3 -}}
{{- $template := include "common.overlay" (list (index . 0) (index . 1) (index . 2) $wiring) -}}
{{- if index . 4 -}}
{{- include "common.wiring.apply" (list ($template | fromJson) $wiring) -}}
{{- else -}}
{{- $template -}}
{{- end -}}
{{- end }}

{{/* common.pod.gpu (list $ PART ENVIRONMENT): PART is worker or head. The Ray container comes first: GKE mounts the
     RDMA device files into the first container only, and KubeRay takes the first for Ray. */}}
{{- define "common.pod.gpu" -}}
{{- if ne (len .) 3 }}{{ fail "common.pod.gpu takes (list $ PART ENVIRONMENT)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- include "common.checkArchitecture" $root -}}
{{- $storage := include "common.podVolumes" $root | fromJson -}}
{{- $environment := concat (include "common.environment" $root | fromJsonArray) (index . 2) | default list -}}
{{- $template := include "common.pod.gpuText" (list $root (index . 1) $storage $environment) | fromYaml -}}
{{- if hasKey $template "Error" }}{{ fail (printf "a pod template is not YAML: %s" $template.Error) }}{{ end -}}
{{- $topology := include "common.topology" $root | fromJson -}}
{{- $annotations := merge $topology ($template.metadata.annotations | default dict) -}}
{{- $_ := set $template.metadata "annotations" $annotations -}}
{{- toJson $template -}}
{{- end }}

{{/* common.pod.gpuText (list $ PART STORAGE ENVIRONMENT): STORAGE is what common.podVolumes returns. */}}
{{- define "common.pod.gpuText" -}}
{{- if ne (len .) 4 }}{{ fail "common.pod.gpuText takes (list $ PART STORAGE ENVIRONMENT)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $storage := index . 2 -}}
{{- $accelerator := $root.Values.accelerator -}}
{{- $amounts := merge (dict "gpus" (int64 $accelerator.gpusPerNode)) $accelerator.worker -}}
{{- $context := ternary "gpu" "plain" (ne $amounts.gpus 0) -}}
metadata:
  labels:
    grpo-charts/stack: {{ $root.Values.stack.name | quote }}
    grpo-charts/owner: {{ include "common.owner" $root | quote }}
    grpo-charts/part: {{ $part | quote }}
  annotations: {{ merge (include "common.stayAnnotations" $root | fromJson) $storage.annotations | toJson }}
spec:
  serviceAccountName: {{ include "common.name" (list $root "serviceAccount") | quote }}
  # Nothing in it calls the Kubernetes API. Buckets ask the metadata server who the pod is.
  automountServiceAccountToken: false
  # A Service of the namespace that is named vllm would set VLLM_PORT, which vLLM reads.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "common.graceSeconds" $root }}
  {{- if not $accelerator.gpusPerNode }}
  {{- with include "common.offGpuNodes" $root | fromJson }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- end }}
  containers:
    - name: ray-{{ $part }}
      image: {{ include "common.image" $root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson (index . 3) }}
      resources:
        {{- include "common.resources" $amounts | nindent 8 }}
      securityContext: {{ include "common.securityContext" (list $root $context) }}
      lifecycle: {{ include "common.lifecycle" (list $root $part) }}
      volumeMounts: {{ toJson $storage.mounts }}
  volumes: {{ toJson $storage.volumes }}
{{- end }}

{{/* common.checkArchitecture $: images.training.arm64 says that the image exists for arm64. */}}
{{- define "common.checkArchitecture" -}}
{{- $architecture := .Values.accelerator.architecture | default "amd64" -}}
{{- if and (eq $architecture "arm64") (not .Values.images.training.arm64) -}}
{{- fail (printf (print "images.training.arm64 is not true, but the nodes of %s are arm64: choose an image for arm64 "
  "(%s is not known to be one), and set images.training.arm64 to true [job/image-for-arm64]")
  .Values.accelerator.name (include "common.image" .)) -}}
{{- end -}}
{{- end }}
