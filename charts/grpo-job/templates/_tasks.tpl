{{/* The tasks of a run other than training. Each is a program of files/jobs that reads one JSON file, task.json. */}}

{{/* grpo.trains: text when the job trains, empty for another task.   include "grpo.trains" $ */}}
{{- define "grpo.trains" }}{{ if eq .Values.job.task "train" }}true{{ end }}{{ end }}

{{/* grpo.usesGpus: text when the task needs GPU nodes.            include "grpo.usesGpus" $ */}}
{{- define "grpo.usesGpus" }}{{ if has .Values.job.task (list "train" "evaluate") }}true{{ end }}{{ end }}

{{/* grpo.task: content of task.json, as JSON.                     include "grpo.task" $ | fromJson */}}
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

{{- define "grpo.task.fetch" -}}
{{- if not .Values.huggingface.cache.volume }}{{ fail "job.task fetch downloads into the cache: set huggingface.cache.volume" }}{{ end -}}
{{- $models := include "common.entries" .Values.job.fetch.models | fromJson -}}
{{- $model := include "grpo.framework" (list . "model") -}}
{{- if and (not (hasPrefix "/" $model)) (not (hasKey $models $model)) }}{{ $_ := set $models $model dict }}{{ end -}}
{{- dict "models" $models "datasets" (include "common.entries" .Values.job.fetch.datasets | fromJson) "code" (include "grpo.code" . | fromJson) | toJson -}}
{{- end }}

{{- define "grpo.task.prepare-data" -}}
{{- $datasets := include "common.entries" .Values.job.prepareData | fromJson -}}
{{- if not $datasets }}{{ fail "job.task prepare-data: job.prepareData names no data set, and this recipe needs none: its framework reads the data set itself" }}{{ end -}}
{{- $filled := dict -}}
{{- range $name, $given := $datasets }}{{ $_ := set $filled $name (merge $given (dict "subset" "main" "question" "question" "answer" "answer")) }}{{ end -}}
{{- dict "datasets" $filled "directory" (include "grpo.datasets" .) "format" (ternary "parquet" "jsonl" (eq .Values.job.framework "verl")) | toJson -}}
{{- end }}

{{- define "grpo.task.convert" -}}
{{- $task := dict "step" .Values.job.step -}}
{{- with .Values.job.convert.dtype }}{{ $_ := set $task "dtype" . }}{{ end -}}
{{- toJson $task -}}
{{- end }}

{{- define "grpo.task.clean" -}}
{{- include "grpo.checkStageDirectory" . -}}
{{- $what := list "checkpoints" "staged" -}}
{{- if .Values.job.clean.converted.enabled }}{{ $what = append $what "converted" }}{{ end -}}
{{- dict "what" $what "stageDirectory" .Values.job.evaluate.stageDirectory | toJson -}}
{{- end }}

{{- define "grpo.task.evaluate" -}}
{{- $evaluate := .Values.job.evaluate -}}
{{- include "grpo.checkEngines" . -}}
{{- include "grpo.checkStageDirectory" . -}}
{{- $benchmarks := dict -}}
{{- range $name, $given := include "common.entries" $evaluate.benchmarks | fromJson -}}
{{- include "grpo.checkBenchmark" (list $ $name) -}}
{{- $filled := merge $given (dict "temperature" 0.0 "topP" 1.0 "maxNewTokens" 8192 "samples" 1 "seed" 42) -}}
{{- if and (gt (int64 $filled.samples) 1) (eq (float64 $filled.temperature) 0.0) -}}
{{- fail (printf "job.evaluate.benchmarks.%s: %d samples at temperature 0 are %d times the same answer: set temperature above 0" $name (int64 $filled.samples) (int64 $filled.samples)) -}}
{{- end -}}
{{- $_ := set $benchmarks $name $filled -}}
{{- end -}}
{{- if not $benchmarks }}{{ fail (printf "job.task evaluate: name a benchmark under job.evaluate.benchmarks, such as %s" (ternary "gsm8k" "math500" (eq .Values.job.framework "verl"))) }}{{ end -}}
{{- $models := list -}}
{{- if $evaluate.base.enabled }}{{ $models = append $models "base" }}{{ end -}}
{{- if $evaluate.checkpoint.enabled }}{{ $models = append $models "checkpoint" }}{{ end -}}
{{- if not $models }}{{ fail "job.task evaluate: enable job.evaluate.base or job.evaluate.checkpoint" }}{{ end -}}
{{- dict
  "step" .Values.job.step
  "nodes" 1
  "models" $models
  "benchmarks" $benchmarks
  "stageDirectory" $evaluate.stageDirectory
  "tensorParallelSize" (int64 $evaluate.tensorParallelSize)
  "vllmKwargs" $evaluate.vllmKwargs | toJson -}}
{{- end }}

{{/* grpo.checkStageDirectory: fail where copies for one node would be made on a volume that all of them mount, or around one.
                                                                  include "grpo.checkStageDirectory" $ */}}
{{- define "grpo.checkStageDirectory" -}}
{{- $stage := .Values.job.evaluate.stageDirectory -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $mount := printf "%s/" $volume.mountPath -}}
{{- if and $stage (not (hasKey $volume "ephemeral")) (or (hasPrefix $mount (printf "%s/" $stage)) (hasPrefix (printf "%s/" $stage) $mount)) -}}
{{- fail (printf "job.evaluate.stageDirectory %s is on, or around, volume %s, which all nodes share: name a folder of the nodes' own disks, such as /tmp/models" $stage $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.checkEngines: fail where vLLM's engines do not fit on a node.   include "grpo.checkEngines" $ */}}
{{- define "grpo.checkEngines" -}}
{{- $size := int64 .Values.job.evaluate.tensorParallelSize -}}{{- $gpus := int64 .Values.accelerator.gpusPerNode -}}
{{- if and (eq .Values.job.framework "verl") (or (gt $size 1) .Values.job.evaluate.vllmKwargs) -}}
{{- fail "job.evaluate: with verl the engines are those of the run, actor_rollout_ref.rollout: leave out tensorParallelSize and vllmKwargs" -}}
{{- end -}}
{{- if and $gpus (mod $gpus $size) -}}
{{- fail (printf "job.evaluate.tensorParallelSize: %d GPUs of a node cannot be cut into engines of %d" $gpus $size) -}}
{{- end -}}
{{- end }}

{{/* grpo.checkBenchmark: fail for a benchmark that the framework of this version does not have.
                                                                  include "grpo.checkBenchmark" (list $ "math500") */}}
{{- define "grpo.checkBenchmark" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $job := $root.Values.job -}}
{{- if and (eq $job.framework "verl") (ne $name "gsm8k") -}}
{{- fail (printf "job.evaluate.benchmarks.%s: verl has no evaluation of its own, and its validation knows gsm8k alone. Set it to null, or evaluate the converted model in a stack with job.framework nemo-rl" $name) -}}
{{- end -}}
{{- if and (eq $name "aime2026") (ne $job.version "v0.7.0") -}}
{{- fail (printf "job.evaluate.benchmarks.aime2026: NeMo RL %s does not have it, v0.7.0 does" $job.version) -}}
{{- end -}}
{{- if and (eq $name "math500") $root.Values.huggingface.offline.enabled -}}
{{- fail "job.evaluate.benchmarks.math500: NeMo RL reads it from the web, which huggingface.offline says is not there. Set it to null" -}}
{{- end -}}
{{- end }}
