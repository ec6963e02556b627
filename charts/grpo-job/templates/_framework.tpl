{{/*
What the frameworks have in common. Each framework has a template file of its own (_nemo_rl.tpl, _verl.tpl) with the
same parts: workingDirectory, model, modelKey, command, checks, requiredFiles, environment, check, derived, rewardKeys.

call                                            returns
include "grpo.framework" (list $ "derived")     one part of the framework that job.framework names
include "grpo.mlflowUri" $                      the address of the MLflow server
*/}}

{{/* grpo.framework (list $ PART): fails where job.version is no version of job.framework. */}}
{{- define "grpo.framework" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.framework takes (list $ PART)" }}{{ end -}}
{{- $job := (index . 0).Values.job -}}
{{- $owner := ternary "nemo-rl" "verl" (hasPrefix "v" $job.version) -}}
{{- if ne $owner $job.framework -}}
{{- fail (printf (print "job.version %s is a version of %s, but job.framework is %s: set both, and images.training, "
  "to values that belong together [values/version-of-another-framework]") $job.version $owner $job.framework) -}}
{{- end -}}
{{- include (printf "grpo.%s.%s" $job.framework (index . 1)) (index . 0) -}}
{{- end }}

{{/* grpo.mlflowUri $: called where tracking.mlflow is enabled. */}}
{{- define "grpo.mlflowUri" -}}
{{- if not .Values.tracking.mlflow.trackingUri -}}
{{- fail "tracking.mlflow.trackingUri is empty, but tracking.mlflow is enabled: write the address of the server" -}}
{{- end -}}
{{- .Values.tracking.mlflow.trackingUri -}}
{{- end }}
