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
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $_ := set $mounts $volume.mountPath (ternary "local disk" (include "common.claimName" (list $ $name)) (hasKey $volume "ephemeral")) -}}
{{- end -}}
{{- dict
  "accelerator" .Values.accelerator.name
  "gpuNodes" (include "common.gpuNodes" . | int64)
  "gpusPerNode" (int64 .Values.accelerator.gpusPerNode)
  "image" (include "common.image" .)
  "rayVersion" .Values.images.training.rayVersion
  "headCpus" (include "common.headCpus" . | int64)
  "environment" (include "common.environmentFacts" . | fromJson)
  "mounts" $mounts | toJson -}}
{{- end }}

{{/* common.environmentFacts: the head's variables from the values, as JSON map; a secret by its name and key.
                                                                  include "common.environmentFacts" $ | fromJson */}}
{{- define "common.environmentFacts" -}}
{{- $facts := dict -}}
{{- range concat (include "common.environment" . | fromJsonArray) (include "common.userEnvironment" (list . "head") | fromJsonArray) -}}
{{- $secret := dig "valueFrom" "secretKeyRef" dict . -}}
{{- $_ := set $facts .name (ternary .value (printf "key %s of Secret %s" $secret.key $secret.name) (hasKey . "value")) -}}
{{- end -}}
{{- toJson $facts -}}
{{- end }}

{{/* common.overlay: a pod template with the user's labels, annotations and podSpec laid over it, as JSON. Tolerations and claims are
     added to ours, because a list that replaced ours would lose the GPU toleration and the RDMA devices.
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
{{- range $key := list "tolerations" "resourceClaims" -}}
{{- if get $spec $key }}{{ $_ := set $spec $key (concat (get $template.spec $key | default list) (get $spec $key)) }}{{ end -}}
{{- end -}}
{{- $metadata := dict "labels" (include "common.entries" $user.labels | fromJson) "annotations" (include "common.entries" $user.annotations | fromJson) -}}
{{- $merged := include "common.merge" (list $template (dict "metadata" $metadata "spec" $spec)) | fromJson -}}
{{- if not $merged.metadata.annotations }}{{ $_ := unset $merged.metadata "annotations" }}{{ end -}}
{{- toJson $merged -}}
{{- end }}

{{/* common.resources: equal requests and limits, as YAML; GPUs only where there are any, because a zero still earns the GPU toleration;
     claims of devices by name.
                                                                  include "common.resources" (dict "cpu" "16" "memory" "64Gi" "ephemeralStorage" "50Gi" "gpus" 0) */}}
{{- define "common.resources" -}}
{{- $amounts := dict "cpu" .cpu "memory" (include "common.quantity" .memory) "ephemeral-storage" (include "common.quantity" .ephemeralStorage) -}}
{{- if .gpus }}{{ $_ := set $amounts "nvidia.com/gpu" (toString .gpus) }}{{ end -}}
{{- $resources := dict "requests" $amounts "limits" $amounts -}}
{{- range .claims }}{{ $_ := set $resources "claims" (append ($resources.claims | default list) (dict "name" .name)) }}{{ end -}}
{{- toYaml $resources -}}
{{- end }}
