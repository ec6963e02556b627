{{/* common.image: the training image, by digest where there is one.
                                                                  include "common.image" $ */}}
{{- define "common.image" -}}
{{- $image := .Values.images.training -}}
{{- if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}{{ else }}{{ printf "%s:%s" $image.repository $image.tag }}{{ end -}}
{{- end }}

{{/* common.facts: what a job relies on, as JSON. raycluster writes it on the head, the job's entrypoint compares its own copy.
                                                                  include "common.facts" $ */}}
{{- define "common.facts" -}}
{{- $mounts := dict -}}
{{- range $name, $volume := include "common.volumes" . | fromJson }}{{ $_ := set $mounts $volume.mountPath (include "common.claimName" (list $ $name)) }}{{ end -}}
{{- dict
  "accelerator" .Values.accelerator.name
  "gpuNodes" (int64 .Values.ray.workers.replicas)
  "gpusPerNode" (int64 .Values.accelerator.gpusPerNode)
  "image" (include "common.image" .)
  "rayVersion" .Values.images.training.rayVersion
  "headCpus" (int64 .Values.ray.head.numCpus)
  "mounts" $mounts | toJson -}}
{{- end }}

{{/* common.environment: variables of head and workers alike, as JSON list. The driver runs on the head, and NeMo RL gives the driver's
     environment to every worker: what differs here would overwrite the workers' own. PATH is the image's on both.
                                                                  include "common.environment" $ | fromJsonArray */}}
{{- define "common.environment" -}}
{{- $secret := .Values.huggingface.secret -}}
{{- $cache := .Values.huggingface.cache -}}
{{- $environment := list
  (dict "name" "LD_LIBRARY_PATH" "value" (list .Values.images.training.libraryPath .Values.accelerator.libraryPath | compact | join ":"))
  (dict "name" "HF_TOKEN" "valueFrom" (dict "secretKeyRef" (dict "name" $secret.name "key" $secret.key))) -}}
{{- if $cache.volume -}}
{{- $mount := include "common.mountPath" (list . "huggingface.cache.volume" $cache.volume) -}}
{{- $environment = append $environment (dict "name" "HF_HOME" "value" (printf "%s/%s" $mount $cache.path)) -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.overlay: a pod template with the user's labels, annotations and podSpec laid over it, as JSON. Tolerations are added to
     ours, because a list that replaced ours would lose the GPU toleration.
                                                                  include "common.overlay" (list $template .Values.ray.head) | fromJson */}}
{{- define "common.overlay" -}}
{{- $template := index . 0 -}}{{- $user := index . 1 -}}
{{- range $key, $_ := $user.labels -}}
{{- if or (hasPrefix "ray.io/" $key) (hasPrefix "grpo-charts/" $key) -}}
{{- fail (printf "pod label %s belongs to KubeRay or to these charts and cannot be set: remove it from ray.head.labels or ray.workers.labels" $key) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $template "Error" }}{{ fail (printf "a pod template is not YAML: %s" (get $template "Error")) }}{{ end -}}
{{- $spec := include "common.entries" $user.podSpec | fromJson -}}
{{- if $spec.tolerations -}}
{{- $spec = set $spec "tolerations" (concat ($template.spec.tolerations | default list) $spec.tolerations) -}}
{{- end -}}
{{- $metadata := dict "labels" (include "common.entries" $user.labels | fromJson) "annotations" (include "common.entries" $user.annotations | fromJson) -}}
{{- $merged := include "common.merge" (list $template (dict "metadata" $metadata "spec" $spec)) | fromJson -}}
{{- if not $merged.metadata.annotations }}{{ $_ := unset $merged.metadata "annotations" }}{{ end -}}
{{- toJson $merged -}}
{{- end }}

{{/* common.resources: equal requests and limits, as YAML; GPUs only where there are any, because a zero still earns the GPU toleration.
                                                                  include "common.resources" (dict "cpu" "16" "memory" "64Gi" "ephemeralStorage" "50Gi" "gpus" 0) */}}
{{- define "common.resources" -}}
{{- $amounts := dict "cpu" .cpu "memory" (include "common.quantity" .memory) "ephemeral-storage" (include "common.quantity" .ephemeralStorage) -}}
{{- if .gpus }}{{ $_ := set $amounts "nvidia.com/gpu" (toString .gpus) }}{{ end -}}
{{- dict "requests" $amounts "limits" $amounts | toYaml -}}
{{- end }}
