{{/* common.environment: variables of head and workers alike that are no wiring, as JSON list. PATH is the image's on both.
                                                                  include "common.environment" $ | fromJsonArray */}}
{{- define "common.environment" -}}
{{- $environment := list -}}{{- $cache := .Values.huggingface.cache -}}
{{- if $cache.volume -}}
{{- $mount := include "common.mountPath" (list . "huggingface.cache.volume" $cache.volume) -}}
{{- $environment = list (dict "name" "HF_HOME" "value" (printf "%s/%s" $mount $cache.path)) -}}
{{- if and .Values.huggingface.offline.enabled (hasKey (get (include "common.volumes" . | fromJson) $cache.volume) "ephemeral") -}}
{{- fail (printf "huggingface.offline.enabled needs a cache that holds something, and huggingface.cache.volume %q is local disk, empty in each new pod: name a volume that stays" $cache.volume) -}}
{{- end -}}
{{- else if .Values.huggingface.offline.enabled -}}
{{- fail "huggingface.offline.enabled needs a cache: set huggingface.cache.volume to the volume that holds weights and data" -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.fromSecret: one variable that holds a key of a Secret, as JSON. It is not optional: without the Secret the pod waits and says so.
                                                                  include "common.fromSecret" (list "HF_TOKEN" (dict "name" "hf-secret" "key" "token")) */}}
{{- define "common.fromSecret" -}}
{{- $secret := index . 1 -}}
{{- dict "name" (index . 0) "valueFrom" (dict "secretKeyRef" (dict "name" $secret.name "key" $secret.key)) | toJson -}}
{{- end }}

{{/* common.variables: variables that the user gives under one key, as JSON map from name to entry of a pod's env.
                                                                  include "common.variables" (list "ray.env" .Values.ray.env) | fromJson */}}
{{- define "common.variables" -}}
{{- $path := index . 0 -}}{{- $variables := dict -}}
{{- range $name, $given := include "common.entries" (index . 1) | fromJson -}}
{{- $entry := include "common.entries" $given | fromJson -}}
{{- if eq (hasKey $entry "value") (hasKey $entry "secret") -}}
{{- fail (printf "%s.%s: give exactly one of value and secret" $path $name) -}}
{{- end -}}
{{- if hasKey $entry "value" -}}
{{- $_ := set $variables $name (dict "name" $name "value" $entry.value) -}}
{{- else -}}
{{- $_ := set $variables $name (include "common.fromSecret" (list $name $entry.secret) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* common.userEnvironment: ray.env with the variables of one part laid over it, as JSON list in the order of names. What the chart sets
     is not settable a second time.                               include "common.userEnvironment" (list $ "head") | fromJsonArray */}}
{{- define "common.userEnvironment" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $paths := dict "ray.env" $root.Values.ray.env (printf "ray.%s.env" $part) (get $root.Values.ray $part).env -}}
{{- $merged := dict -}}
{{- range $path := keys $paths | sortAlpha -}}
{{- range $name, $entry := include "common.variables" (list $path (get $paths $path)) | fromJson -}}
{{- if has $name (include "common.kuberayVariables" . | fromJsonArray) -}}
{{- fail (printf "%s.%s: KubeRay sets or refuses %s itself, and would say so in an event only. Remove it" $path $name $name) -}}
{{- end -}}
{{- if has $name (include "common.ownVariables" $root | fromJsonArray) -}}
{{- fail (printf "%s.%s: the charts set %s themselves. Remove it, and change the value it follows from" $path $name $name) -}}
{{- end -}}
{{- $_ := set $merged $name $entry -}}
{{- end -}}
{{- end -}}
{{- $list := list -}}
{{- range $name := keys $merged | sortAlpha }}{{ $list = append $list (get $merged $name) }}{{ end -}}
{{- toJson $list -}}
{{- end }}

{{/* common.kuberayVariables: names that KubeRay adds without looking, judges by what else is set, or refuses, as JSON list.
                                                                  include "common.kuberayVariables" . | fromJsonArray */}}
{{- define "common.kuberayVariables" -}}
{{- toJson (list
  "FQ_RAY_IP" "RAY_IP" "RAY_CLUSTER_NAME" "RAY_CLUSTER_NAMESPACE" "RAY_CLOUD_INSTANCE_ID" "RAY_NODE_TYPE_NAME" "KUBERAY_GEN_RAY_START_CMD"
  "RAY_AUTH_MODE" "RAY_AUTH_TOKEN" "RAY_enable_autoscaler_v2" "REDIS_USERNAME" "REDIS_PASSWORD" "RAY_REDIS_ADDRESS") -}}
{{- end }}

{{/* common.ownVariables: names that the charts or the post-renderer set on head or workers, as JSON list. The head counts for both,
     because the driver's environment overwrites the workers'.    include "common.ownVariables" $ | fromJsonArray */}}
{{- define "common.ownVariables" -}}
{{- $names := list "GRPO_CLUSTER_FACTS" "RAY_JOB_STOP_WAIT_TIME_S" "HF_TOKEN" "HF_HUB_OFFLINE" "WANDB_API_KEY" -}}
{{- range concat (include "common.wiring.variables" . | fromJsonArray) (include "common.wiring.nccl" . | fromJsonArray) (include "common.environment" . | fromJsonArray) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- uniq $names | toJson -}}
{{- end }}
