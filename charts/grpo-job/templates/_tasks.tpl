{{/*
The tasks of a run other than training. Each is a program of jobs/ that reads one JSON file, task.json.

call                                            returns
include "grpo.trains" $                         "true" where the job trains, else ""
include "grpo.usesGpus" $                       "true" where the task needs GPU nodes, else ""
include "grpo.task" $ | fromJson                the content of task.json
include "grpo.task.fetch" $ | fromJson          the part of one task; there is one helper for each
include "grpo.checkStageDirectory" $            nothing; fails where local copies would lie on a shared volume
*/}}

{{/* grpo.trains $: job.task is train. */}}
{{- define "grpo.trains" }}{{ if eq .Values.job.task "train" }}true{{ end }}{{ end }}

{{/* grpo.usesGpus $: the other tasks run on the head's CPUs. */}}
{{- define "grpo.usesGpus" }}{{ if has .Values.job.task (list "train" "evaluate") }}true{{ end }}{{ end }}

{{/* grpo.task $: what all tasks need, with the task's own part over it. */}}
{{- define "grpo.task" -}}
{{- $job := .Values.job -}}
{{- $common := dict
  "task" $job.task
  "run" $job.name
  "runDirectory" (include "grpo.runDirectory" .)
  "framework" $job.framework
  "version" $job.version
  "workingDirectory" "."
  "model" (include "grpo.framework" (list . "model"))
  "gpusPerNode" (int64 .Values.accelerator.gpusPerNode) -}}
{{- include "common.merge" (list $common (include (printf "grpo.task.%s" $job.task) . | fromJson)) -}}
{{- end }}

{{/* grpo.task.fetch $: a model that is no folder on a volume is fetched at main unless job.fetch names it. */}}
{{- define "grpo.task.fetch" -}}
{{- if not .Values.huggingface.cache.volume -}}
{{- fail "huggingface.cache.volume is empty, but task fetch downloads into the cache: name a volume" -}}
{{- end -}}
{{- $models := include "common.entries" .Values.job.fetch.models | fromJson -}}
{{- $model := include "grpo.framework" (list . "model") -}}
{{- if and (not (hasPrefix "/" $model)) (not (hasKey $models $model)) }}{{ $_ := set $models $model dict }}{{ end -}}
{{- dict
  "models" $models
  "datasets" (include "common.entries" .Values.job.fetch.datasets | fromJson)
  "code" (include "grpo.code" . | fromJson) | toJson -}}
{{- end }}

{{/* grpo.task.prepare-data $: the defaults are the columns of openai/gsm8k. */}}
{{- define "grpo.task.prepare-data" -}}
{{- $datasets := include "common.entries" .Values.job.prepareData | fromJson -}}
{{- if not $datasets -}}
{{- fail (print "job.prepareData names no data set for task prepare-data. Name one, or leave the task out: the "
  "framework of this recipe may read its data set itself") -}}
{{- end -}}
{{- $filled := dict -}}
{{- range $name, $given := $datasets -}}
{{- $_ := set $filled $name (merge $given (dict "subset" "main" "question" "question" "answer" "answer")) -}}
{{- end -}}
{{- dict
  "datasets" $filled
  "directory" (include "grpo.datasets" .)
  "format" (ternary "parquet" "jsonl" (eq .Values.job.framework "verl")) | toJson -}}
{{- end }}

{{/* grpo.task.convert $: without dtype the weights stay as they were trained. */}}
{{- define "grpo.task.convert" -}}
{{- $task := dict "step" .Values.job.step -}}
{{- with .Values.job.convert.dtype }}{{ $_ := set $task "dtype" . }}{{ end -}}
{{- toJson $task -}}
{{- end }}

{{/* grpo.task.clean $: staged are the copies on the nodes' own disks. */}}
{{- define "grpo.task.clean" -}}
{{- include "grpo.checkStageDirectory" . -}}
{{- $what := list "checkpoints" "staged" -}}
{{- if .Values.job.clean.converted.enabled }}{{ $what = append $what "converted" }}{{ end -}}
{{- dict "what" $what "stageDirectory" .Values.job.evaluate.stageDirectory | toJson -}}
{{- end }}

{{/* grpo.checkStageDirectory $: a staged copy belongs to one node, so its folder is on no volume that all nodes
     mount, nor around one. */}}
{{- define "grpo.checkStageDirectory" -}}
{{- $stage := .Values.job.evaluate.stageDirectory -}}
{{- $folder := printf "%s/" $stage -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $mount := printf "%s/" $volume.mountPath -}}
{{- $overlaps := or (hasPrefix $mount $folder) (hasPrefix $folder $mount) -}}
{{- if and $stage (not (hasKey $volume "ephemeral")) $overlaps -}}
{{- fail (printf (print "job.evaluate.stageDirectory %s overlaps volume %s, which all nodes share: name a folder on "
  "the nodes' own disks, such as /tmp/models") $stage $name) -}}
{{- end -}}
{{- end -}}
{{- end }}
