{{/*
Names that cross a layer, and the labels of every object.

call                                                returns
include "common.name" (list $ "cluster")            the name of a part that several charts use
include "common.owner" $                            the name of what the pods belong to
include "common.claimName" (list $ "data")          the name of a volume's PersistentVolumeClaim
include "common.labels" $                           labels of an object's metadata, as YAML
*/}}

{{/* common.name (list $ PART): the one table of names that cross a layer. PART is cluster or serviceAccount. */}}
{{- define "common.name" -}}
{{- if ne (len .) 2 }}{{ fail "common.name takes (list $ PART)" }}{{ end -}}
{{- $stack := (index . 0).Values.stack -}}
{{- $part := index . 1 -}}
{{- $derived := dict "cluster" (printf "%s-ray" $stack.name) "serviceAccount" $stack.name -}}
{{- if not (hasKey $derived $part) -}}
{{- $parts := keys $derived | sortAlpha | join ", " -}}
{{- fail (printf "common.name: no part called %q; the parts are %s" $part $parts) -}}
{{- end -}}
{{- get ($stack.names | default dict) $part | default (get $derived $part) -}}
{{- end }}

{{/* common.owner $: the RayCluster's name; for a job that brings its own cluster job.name, with the task unless it
     trains, because each task is a release of its own. Pods carry it in their label grpo-charts/owner. */}}
{{- define "common.owner" -}}
{{- if eq .Chart.Name "grpo-job" -}}
{{- .Values.job.name }}{{ if ne .Values.job.task "train" }}-{{ .Values.job.task }}{{ end -}}
{{- else -}}
{{- include "common.name" (list . "cluster") -}}
{{- end -}}
{{- end }}

{{/* common.claimName (list $ VOLUME): the name of an existing claim, or <stack.name>-<volume>. */}}
{{- define "common.claimName" -}}
{{- if ne (len .) 2 }}{{ fail "common.claimName takes (list $ VOLUME)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $volume := index . 1 -}}
{{- $claim := get (get $root.Values.storage $volume) "existingClaim" -}}
{{- if $claim }}{{ $claim.name }}{{ else }}{{ printf "%s-%s" $root.Values.stack.name $volume }}{{ end -}}
{{- end }}

{{/* common.labels $: never used on pod templates, because a new chart version must not recreate any pod. */}}
{{- define "common.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" .Chart.Name
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/part-of" .Values.stack.name
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- $user := include "common.entries" .Values.stack.labels | fromJson -}}
{{- include "common.merge" (list $user $own) | fromJson | toYaml -}}
{{- end }}
