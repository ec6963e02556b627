{{/*
The RayCluster's spec, which the object has and by which an upgrade is judged.

call                                                    returns
include "raycluster.spec" (list $ WIRED)                the spec without upgradeStrategy, as YAML
include "raycluster.queued" (list $ SPEC)               the spec of a cluster in a queue of Kueue, as YAML
include "raycluster.pods" $                             digests of what the pods are made from, by name, as JSON
include "raycluster.idleCheck" $                        the name of the pod that asks whether a job runs
include "raycluster.release" $                          the name of the ConfigMap that holds it
*/}}

{{/* raycluster.spec (list $ WIRED): the wiring is left out where WIRED is false. */}}
{{- define "raycluster.spec" -}}
{{- if ne (len .) 2 }}{{ fail "raycluster.spec takes (list $ WIRED)" }}{{ end -}}
{{- $wired := index . 1 -}}
{{- with index . 0 -}}
rayVersion: {{ .Values.images.training.rayVersion | quote }}
enableInTreeAutoscaling: false
{{- if .Values.ray.tokenAuth.enabled }}
authOptions:
  mode: token
{{- end }}
headGroupSpec:
  {{- include "common.headGroup" (list . $wired) | nindent 2 }}
{{- if .Values.ray.workers.replicas }}
workerGroupSpecs:
  {{- include "common.workerGroup" (list . .Values.ray.workers.replicas $wired) | nindent 2 }}
{{- else }}
workerGroupSpecs: []
{{- end }}
{{- end -}}
{{- end }}

{{/* raycluster.queued (list $ SPEC): in a queue Kueue replaces the pods, and not KubeRay, which has no upgradeStrategy
     there. Kueue writes labels and annotations into the pod templates. KubeRay would replace all pods of a running job
     after anything that takes them away: kubectl apply, Argo CD, helm upgrade --force-conflicts. Kueue compares only
     containers and the number of pods, so the head carries a digest of all the rest. */}}
{{- define "raycluster.queued" -}}
{{- if ne (len .) 2 }}{{ fail "raycluster.queued takes (list $ SPEC)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $spec := index . 1 | fromYaml -}}
{{- if eq $root.Values.ray.upgrade "manual" -}}
{{- fail (print "ray.upgrade is manual, but Kueue stops a cluster of its queue as soon as the containers change: set "
  "ray.upgrade to whenIdle or recreate, or remove ray.kueue.queue") -}}
{{- end -}}
{{- $container := first $spec.headGroupSpec.template.spec.containers -}}
{{- $digest := include "raycluster.pods" $root | sha256sum | trunc 16 -}}
{{- $_ := set $container "env" (append $container.env (dict "name" "GRPO_PODS" "value" $digest)) -}}
{{- toYaml $spec -}}
{{- end }}

{{/* raycluster.pods $: with the wiring, whoever brings it. KubeRay replaces no pod for another number of workers. */}}
{{- define "raycluster.pods" -}}
{{- if not (hasKey . "raycluster.pods") -}}
{{- $spec := include "raycluster.spec" (list . true) | fromYaml -}}
{{- $parts := dict "the version of Ray" $spec.rayVersion "the authentication" ($spec.authOptions | default "") -}}
{{- /* Kueue also stops a cluster that it did not know before. */ -}}
{{- with .Values.ray.kueue.queue }}{{ $_ := set $parts "the queue of Kueue" . }}{{ end -}}
{{- range $name, $group := dict "head" $spec.headGroupSpec "workers" (first $spec.workerGroupSpecs | default dict) -}}
{{- range $i, $container := dig "template" "spec" "containers" list $group -}}
{{- if not $i -}}
{{- $_ := set $parts (printf "image of the %s" $name) $container.image -}}
{{- $_ := set $parts (printf "environment of the %s" $name) $container.env -}}
{{- $_ := unset $container "image" -}}{{- $_ := unset $container "env" -}}
{{- end -}}
{{- end -}}
{{- $_ := set $parts (printf "pod of the %s" $name) (omit $group "replicas" "minReplicas" "maxReplicas") -}}
{{- end -}}
{{- $digests := dict -}}
{{- range $name, $part := $parts -}}
{{- $_ := set $digests $name (toJson $part | sha256sum | trunc 16) -}}
{{- end -}}
{{- $_ := set . "raycluster.pods" (toPrettyJson $digests) -}}
{{- end -}}
{{- get . "raycluster.pods" -}}
{{- end }}

{{/* raycluster.release $: its name stays when the cluster gets another one. */}}
{{- define "raycluster.release" -}}
{{- printf "%s-release" .Release.Name -}}
{{- end }}

{{/* raycluster.idleCheck $: its ConfigMap has the same name. */}}
{{- define "raycluster.idleCheck" -}}
{{- printf "%s-idle-check" (include "common.name" (list . "cluster")) -}}
{{- end }}
