{{/*
Files that must lie on a volume when the job starts, each with the task that makes it (empty: none of ours).

call                                                                returns
include "grpo.neededInputs" (list $ $config.data) | fromJson        files that a configuration names
include "grpo.neededByTask" $ | fromJson                            files that a task other than training needs
include "grpo.neededCode" $ | fromJson                              the record of the code of job.code
include "grpo.verl.inputs" $ | fromJsonArray                        paths that verl reads besides data and model
*/}}

{{/* grpo.neededInputs (list $ VALUE): walks VALUE. A path below GRPO_DATASETS is made by prepare-data; another path
     counts where it lies on a volume of the stack. */}}
{{- define "grpo.neededInputs" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.neededInputs takes (list $ VALUE)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $value := index . 1 -}}{{- $needed := dict -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) -}}
{{- range $inner := $value -}}
{{- $needed = merge $needed (include "grpo.neededInputs" (list $root $inner) | fromJson) -}}
{{- end -}}
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

{{/* grpo.neededByTask $: convert and evaluate run the framework's code; evaluate reads gsm8k from its prepared file.
     */}}
{{- define "grpo.neededByTask" -}}
{{- $task := .Values.job.task -}}{{- $needed := dict -}}
{{- if has $task (list "convert" "evaluate") }}{{ $needed = include "grpo.neededCode" . | fromJson }}{{ end -}}
{{- $benchmarks := include "common.entries" .Values.job.evaluate.benchmarks | fromJson -}}
{{- if and (eq $task "evaluate") (hasKey $benchmarks "gsm8k") -}}
{{- $format := ternary "parquet" "jsonl" (eq .Values.job.framework "verl") -}}
{{- $_ := set $needed (printf "%s/gsm8k/test.%s" (include "grpo.datasets" .) $format) "prepare-data" -}}
{{- end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.neededCode $: task fetch puts the code on a volume, and writes the record last. */}}
{{- define "grpo.neededCode" -}}
{{- $needed := dict -}}
{{- with include "grpo.code" . | fromJson }}{{ $_ := set $needed (printf "%s/grpo.json" .directory) "fetch" }}{{ end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.verl.inputs $: the reward function, unless job.rewards replace it, and the checkpoint to begin with. */}}
{{- define "grpo.verl.inputs" -}}
{{- $config := include "grpo.mergedConfig" . | fromJson -}}{{- $inputs := list -}}
{{- if eq (include "grpo.rewards" .) "{}" -}}
{{- range $section := list $config (get $config "reward" | default dict) -}}
{{- with dig "custom_reward_function" "path" "" $section }}{{ $inputs = append $inputs . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $trainer := get $config "trainer" | default dict -}}
{{- if eq (get $trainer "resume_mode" | toString) "resume_path" -}}
{{- with get $trainer "resume_from_path" }}{{ $inputs = append $inputs . }}{{ end -}}
{{- end -}}
{{- toJson $inputs -}}
{{- end }}
