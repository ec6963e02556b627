{{/* common.name: the one table of names that cross a layer.      include "common.name" (list $ "cluster") */}}
{{- define "common.name" -}}
{{- if ne (len .) 2 }}{{ fail "common.name takes (list $ PART)" }}{{ end -}}
{{- $stack := (index . 0).Values.stack -}}
{{- $part := index . 1 -}}
{{- $derived := dict "cluster" (printf "%s-ray" $stack.name) "serviceAccount" $stack.name -}}
{{- if not (hasKey $derived $part) }}{{ fail (printf "common.name: no part called %q; the parts are %s" $part (keys $derived | sortAlpha | join ", ")) }}{{ end -}}
{{- get ($stack.names | default dict) $part | default (get $derived $part) -}}
{{- end }}

{{/* common.owner: what the pods belong to, the cluster or the job that brings its own; in their label grpo-charts/owner.
                                                                  include "common.owner" $ */}}
{{- define "common.owner" -}}
{{- if eq .Chart.Name "grpo-job" }}{{ .Values.job.name }}{{ else }}{{ include "common.name" (list . "cluster") }}{{ end -}}
{{- end }}

{{/* common.claimName: the claim of one volume.                   include "common.claimName" (list $ "data") */}}
{{- define "common.claimName" -}}
{{- if ne (len .) 2 }}{{ fail "common.claimName takes (list $ VOLUME)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $volume := index . 1 -}}
{{- $claim := get (get $root.Values.storage $volume) "existingClaim" -}}
{{- if $claim }}{{ $claim.name }}{{ else }}{{ printf "%s-%s" $root.Values.stack.name $volume }}{{ end -}}
{{- end }}

{{/* common.labels: labels of an object's metadata, as YAML. Never used on pod templates: a chart bump must recreate no pod.
                                                                  include "common.labels" $ */}}
{{- define "common.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" .Chart.Name
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/part-of" .Values.stack.name
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- include "common.merge" (list (include "common.entries" .Values.stack.labels | fromJson) $own) | fromJson | toYaml -}}
{{- end }}
