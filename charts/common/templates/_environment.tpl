{{/*
Environment variables of head and workers that are not wiring.

call                                                            returns
include "common.environment" $ | fromJsonArray                  variables that the charts set on every pod
include "common.fromSecret" (list "HF_TOKEN" $secret)           one variable that reads a key of a Secret, as JSON
include "common.variables" (list "ray.env" $env) | fromJson     the user's variables under one key, by name
include "common.userEnvironment" (list $ "head") | fromJsonArray    ray.env and the part's own variables over it
include "common.kuberayVariables" . | fromJsonArray             names that KubeRay sets or refuses
include "common.ownVariables" $ | fromJsonArray                 names that the charts set
include "common.fetchesForOffline" $                            yes where task fetch needs the hub, or nothing
*/}}

{{/* common.environment $: head and workers get the same variables. */}}
{{- define "common.environment" -}}
{{- $environment := list -}}
{{- $cache := .Values.huggingface.cache -}}
{{- $offline := .Values.huggingface.offline.enabled -}}
{{- if $cache.volume -}}
{{- $mount := include "common.mountPath" (list . "huggingface.cache.volume" $cache.volume) -}}
{{- $environment = list (dict "name" "HF_HOME" "value" (printf "%s/%s" $mount $cache.path)) -}}
{{- $volume := get (include "common.volumes" . | fromJson) $cache.volume -}}
{{- if and $offline (hasKey $volume "ephemeral") -}}
{{- fail (printf (print "huggingface.cache.volume is %q, local disk that is empty in each new pod, but "
  "huggingface.offline.enabled needs a filled cache: name a volume that outlives the pods") $cache.volume) -}}
{{- end -}}
{{- else if $offline -}}
{{- fail (print "huggingface.offline.enabled needs a cache: set huggingface.cache.volume to the volume that holds "
  "weights and data") -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.fetchesForOffline $: yes where task fetch fills the cache of an offline stack, on its own cluster. */}}
{{- define "common.fetchesForOffline" -}}
{{- $job := .Values.job | default dict -}}
{{- $isOwn := and (eq ($job.task | default "") "fetch") (eq (dig "cluster" "mode" "" $job) "ephemeral") -}}
{{- if and .Values.huggingface.offline.enabled $isOwn }}yes{{ end -}}
{{- end }}

{{/* common.fromSecret (list NAME SECRET): SECRET is {name, key}. The variable is not optional: without the Secret the
     pod waits, and its events say why. */}}
{{- define "common.fromSecret" -}}
{{- if ne (len .) 2 }}{{ fail "common.fromSecret takes (list NAME SECRET)" }}{{ end -}}
{{- $secret := index . 1 -}}
{{- dict "name" (index . 0) "valueFrom" (dict "secretKeyRef" (dict "name" $secret.name "key" $secret.key)) | toJson -}}
{{- end }}

{{/* common.variables (list PATH ENV): each entry of the result is one entry of a pod's env. PATH stands in messages.
     */}}
{{- define "common.variables" -}}
{{- if ne (len .) 2 }}{{ fail "common.variables takes (list PATH ENV)" }}{{ end -}}
{{- $path := index . 0 -}}
{{- $variables := dict -}}
{{- range $name, $given := include "common.entries" (index . 1) | fromJson -}}
{{- $entry := include "common.entries" $given | fromJson -}}
{{- if eq (hasKey $entry "value") (hasKey $entry "secret") -}}
{{- fail (printf (print "%s.%s has both value and secret, or neither: give exactly one of value and secret "
  "[job/variable-of-the-charts]") $path $name) -}}
{{- end -}}
{{- if hasKey $entry "value" -}}
{{- $_ := set $variables $name (dict "name" $name "value" $entry.value) -}}
{{- else -}}
{{- $_ := set $variables $name (include "common.fromSecret" (list $name $entry.secret) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* common.userEnvironment (list $ PART): PART is head or workers. The list is in the order of names. A variable that
     the charts or KubeRay set is refused. */}}
{{- define "common.userEnvironment" -}}
{{- if ne (len .) 2 }}{{ fail "common.userEnvironment takes (list $ PART)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $paths := dict "ray.env" $root.Values.ray.env (printf "ray.%s.env" $part) (get $root.Values.ray $part).env -}}
{{- $kuberay := include "common.kuberayVariables" $root | fromJsonArray -}}
{{- $own := include "common.ownVariables" $root | fromJsonArray -}}
{{- $merged := dict -}}
{{- range $path := keys $paths | sortAlpha -}}
{{- range $name, $entry := include "common.variables" (list $path (get $paths $path)) | fromJson -}}
{{- if has $name $kuberay -}}
{{- fail (printf (print "%s.%s: KubeRay sets or refuses %s itself, and reports this only in an event. Remove it "
  "[job/variable-of-the-charts]")
  $path $name $name) -}}
{{- end -}}
{{- if has $name $own -}}
{{- fail (printf (print "%s.%s: the charts set %s themselves. Remove it, and change the value that it is computed from "
  "[job/variable-of-the-charts]")
  $path $name $name) -}}
{{- end -}}
{{- $_ := set $merged $name $entry -}}
{{- end -}}
{{- end -}}
{{- $list := list -}}
{{- range $name := keys $merged | sortAlpha }}{{ $list = append $list (get $merged $name) }}{{ end -}}
{{- toJson $list -}}
{{- end }}

{{/* common.kuberayVariables .: KubeRay adds some of these without looking, and refuses the others. */}}
{{- define "common.kuberayVariables" -}}
{{- toJson (list
  "FQ_RAY_IP" "RAY_IP" "RAY_CLUSTER_NAME" "RAY_CLUSTER_NAMESPACE" "RAY_CLOUD_INSTANCE_ID" "RAY_NODE_TYPE_NAME"
  "KUBERAY_GEN_RAY_START_CMD" "RAY_AUTH_MODE" "RAY_AUTH_TOKEN" "RAY_enable_autoscaler_v2" "REDIS_USERNAME"
  "REDIS_PASSWORD" "RAY_REDIS_ADDRESS") -}}
{{- end }}

{{/* common.ownVariables $: the names count for head and workers alike, because the driver on the head gives its
     environment to the workers. */}}
{{- define "common.ownVariables" -}}
{{- $names := list "GRPO_CLUSTER_FACTS" "RAY_JOB_STOP_WAIT_TIME_S" "HF_TOKEN" "HF_HUB_OFFLINE" "WANDB_API_KEY" -}}
{{- $set := concat
  (include "common.wiring.variables" . | fromJsonArray)
  (include "common.wiring.nccl" . | fromJsonArray)
  (include "common.environment" . | fromJsonArray) -}}
{{- range $set }}{{ $names = append $names .name }}{{ end -}}
{{- uniq $names | toJson -}}
{{- end }}
