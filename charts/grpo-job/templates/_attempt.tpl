{{/*
The names of a run's attempts.

call                                    returns
include "grpo.runName" $                the name of the RayJob
include "grpo.attemptName" (list $ 2)   the name that it has with another attempt
include "grpo.endedName" (list $ 2)     the name of the ConfigMap that says that an attempt is over
*/}}

{{/* grpo.runName $: it carries the task unless it is the training. The longest task must fit too. */}}
{{- define "grpo.runName" -}}
{{- $job := .Values.job -}}
{{- $longest := printf "%s-prepare-data-%d" $job.name (int64 $job.attempt) -}}
{{- if gt (len $longest) 47 -}}
{{- fail (printf (print "the RayJob of a task would be called %s, which has %d characters, but KubeRay allows 47: "
  "shorten job.name") $longest (len $longest)) -}}
{{- end -}}
{{- include "grpo.attemptName" (list . $job.attempt) -}}
{{- end }}

{{/* grpo.attemptName (list $ ATTEMPT): unchecked. */}}
{{- define "grpo.attemptName" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.attemptName takes (list $ ATTEMPT)" }}{{ end -}}
{{- $job := (index . 0).Values.job -}}
{{- $task := ternary "" (printf "-%s" $job.task) (eq $job.task "train") -}}
{{- printf "%s%s-%d" $job.name $task (int64 (index . 1)) -}}
{{- end }}

{{/* grpo.endedName (list $ ATTEMPT): it stands in Helm's error, so it says what to do. */}}
{{- define "grpo.endedName" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.endedName takes (list $ ATTEMPT)" }}{{ end -}}
{{- include "grpo.attemptName" . }}-is-over-raise-job.attempt-or-remove-this-revision
{{- end }}
