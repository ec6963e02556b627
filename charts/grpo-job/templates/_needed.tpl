{{/* grpo.neededInputs: files below a key that must lie on a volume when the run starts, and the task that makes each (empty: none of
     ours), as JSON.                                              include "grpo.neededInputs" (list $ "data" $config.data) | fromJson */}}
{{- define "grpo.neededInputs" -}}
{{- $root := index . 0 -}}{{- $value := index . 2 -}}{{- $needed := dict -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value }}{{ $needed = merge $needed (include "grpo.neededInputs" (list $root $key $inner) | fromJson) }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- range $inner := $value }}{{ $needed = merge $needed (include "grpo.neededInputs" (list $root (index $ 1) $inner) | fromJson) }}{{ end -}}
{{- else if kindIs "string" $value -}}
{{- $prepared := trimPrefix "${oc.env:GRPO_DATASETS}/" $value -}}
{{- if and (ne $prepared $value) (not (contains "${" $prepared)) -}}
{{- $_ := set $needed (printf "%s/%s" (include "grpo.datasets" $root) $prepared) "prepare-data" -}}
{{- else if not (contains "${" $value) -}}
{{- range $volume := include "common.volumes" $root | fromJson -}}
{{- if hasPrefix (printf "%s/" $volume.mountPath) $value }}{{ $_ := set $needed $value "" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.neededByTask: files that a task other than training needs, and the task that makes each, as JSON.
                                                                  include "grpo.neededByTask" $ | fromJson */}}
{{- define "grpo.neededByTask" -}}
{{- $task := .Values.job.task -}}{{- $needed := dict -}}
{{- if has $task (list "convert" "evaluate") }}{{ $needed = include "grpo.neededCode" . | fromJson }}{{ end -}}
{{- if and (eq $task "evaluate") (hasKey (include "common.entries" .Values.job.evaluate.benchmarks | fromJson) "gsm8k") -}}
{{- $_ := set $needed (printf "%s/gsm8k/test.%s" (include "grpo.datasets" .) (ternary "parquet" "jsonl" (eq .Values.job.framework "verl"))) "prepare-data" -}}
{{- end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.neededCode: record of the code that job.code puts on a volume, and the task that puts it there, as JSON.
                                                                  include "grpo.neededCode" $ | fromJson */}}
{{- define "grpo.neededCode" -}}
{{- $needed := dict -}}
{{- with include "grpo.code" . | fromJson }}{{ $_ := set $needed (printf "%s/grpo.json" .directory) "fetch" }}{{ end -}}
{{- toJson $needed -}}
{{- end }}
