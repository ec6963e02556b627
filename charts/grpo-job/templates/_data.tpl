{{/*
What a run is trained on, in a few words for people; grpo/values/frameworks/data.py says the same.

call                            returns
include "grpo.dataWords" $      data sets or files with commas between them, as the configuration or its base names them
*/}}

{{/* grpo.dataWords $: one of NeMo RL's entries has its file, or else the name of its data set. */}}
{{- define "grpo.dataWords" -}}
{{- $data := (include "grpo.mergedConfig" . | fromJson).data | default dict -}}
{{- $entries := list -}}
{{- if eq .Values.job.framework "verl" -}}
{{- $files := $data.train_files | default list -}}
{{- $entries = ternary $files (list $files) (kindIs "slice" $files) -}}
{{- else -}}
{{- $train := ternary $data ($data.train | default dict) (semverCompare "<0.6.0" .Values.job.version) -}}
{{- range $entry := ternary $train (list $train) (kindIs "slice" $train) -}}
{{- $section := ternary $entry dict (kindIs "map" $entry) -}}
{{- $entries = append $entries (coalesce $section.data_path $section.train_data_path $section.data_files
  $section.dataset_name "OpenMathInstruct-2") -}}
{{- end -}}
{{- end -}}
{{- $words := list -}}
{{- range $entry := $entries -}}
{{- $words = append $words (toString $entry | trimPrefix "${oc.env:GRPO_DATASETS}/") -}}
{{- end -}}
{{- $words | uniq | join ", " | default "data of its own" -}}
{{- end }}
