{{/*
The guard of a training: its part of the plan, and the variables of the driver.

call                                            returns
include "grpo.guard" $ | fromJson               what the guard of a training watches for
include "grpo.guardVariables" $ | fromJson      variables that make NCCL's last collectives readable
*/}}

{{/* grpo.guardVariables $: PyTorch 2.9 gave two of them new names, and older images know only the old ones. What
     ray.env says of them counts. The folder exists in every pod, and a pod's files go with it. */}}
{{- define "grpo.guardVariables" -}}
{{- $files := "/tmp/grpo-nccl-rank-" -}}
{{- $variables := dict
  "PYTHONUNBUFFERED" "1"
  "TORCH_NCCL_DUMP_ON_TIMEOUT" "1"
  "TORCH_FR_BUFFER_SIZE" "2000"
  "TORCH_NCCL_TRACE_BUFFER_SIZE" "2000"
  "TORCH_FR_DUMP_TEMP_FILE" $files
  "TORCH_NCCL_DEBUG_INFO_TEMP_FILE" $files -}}
{{- if not .Values.job.guard.enabled }}{{ $variables = dict }}{{ end -}}
{{- range $name := keys (include "common.entries" .Values.ray.env | fromJson) -}}
{{- $_ := unset $variables $name -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* grpo.guard $: it gives a trainer the time to save that Ray gives. */}}
{{- define "grpo.guard" -}}
{{- $guard := .Values.job.guard -}}
{{- $deadlines := dict -}}
{{- range $name, $seconds := $guard.deadlines }}{{ $_ := set $deadlines $name (int64 $seconds) }}{{ end -}}
{{- $stopOn := dict -}}
{{- range $name, $entry := include "common.entries" $guard.stopOn | fromJson -}}
{{- $_ := set $stopOn $name (dict "steps" (int64 ($entry.steps | default 1))) -}}
{{- end -}}
{{- dict
  "deadlines" $deadlines
  "factor" (int64 $guard.factor)
  "restarts" (int64 $guard.restarts)
  "evidenceSeconds" (int64 $guard.evidenceSeconds)
  "saveSeconds" (int64 .Values.ray.head.jobStopSeconds)
  "stopOn" $stopOn
  "limits" $guard.limits | toJson -}}
{{- end }}
