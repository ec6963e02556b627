{{/*
Task evaluate: models on benchmarks.

call                                                returns
include "grpo.task.evaluate" $ | fromJson           its part of task.json
include "grpo.benchmarks" $ | fromJson              the benchmarks with their defaults, by name
include "grpo.checkBenchmark" (list $ "math500")    nothing; fails for a benchmark that the framework does not have
include "grpo.checkEngines" $                       nothing; fails where vLLM's engines do not fit a node
*/}}

{{/* grpo.task.evaluate $: on one node. */}}
{{- define "grpo.task.evaluate" -}}
{{- $evaluate := .Values.job.evaluate -}}
{{- include "grpo.checkEngines" . -}}
{{- include "grpo.checkStageDirectory" . -}}
{{- $benchmarks := include "grpo.benchmarks" . | fromJson -}}
{{- $models := list -}}
{{- if $evaluate.base.enabled }}{{ $models = append $models "base" }}{{ end -}}
{{- if $evaluate.checkpoint.enabled }}{{ $models = append $models "checkpoint" }}{{ end -}}
{{- if not $models -}}
{{- fail "job.evaluate.base and job.evaluate.checkpoint are both off, so there is no model: enable one of them" -}}
{{- end -}}
{{- dict
  "step" .Values.job.step
  "nodes" 1
  "models" $models
  "benchmarks" $benchmarks
  "stageDirectory" $evaluate.stageDirectory
  "tensorParallelSize" (int64 $evaluate.tensorParallelSize)
  "vllmKwargs" $evaluate.vllmKwargs | toJson -}}
{{- end }}

{{/* grpo.benchmarks $: greedy by default. */}}
{{- define "grpo.benchmarks" -}}
{{- $defaults := dict "temperature" 0.0 "topP" 1.0 "maxNewTokens" 8192 "samples" 1 "seed" 42 -}}
{{- $benchmarks := dict -}}
{{- range $name, $given := include "common.entries" .Values.job.evaluate.benchmarks | fromJson -}}
{{- include "grpo.checkBenchmark" (list $ $name) -}}
{{- $filled := merge $given $defaults -}}
{{- $samples := int64 $filled.samples -}}
{{- if and (gt $samples 1) (eq (float64 $filled.temperature) 0.0) -}}
{{- fail (printf (print "job.evaluate.benchmarks.%s: %d samples at temperature 0 are %d times the same answer: set "
  "temperature above 0") $name $samples $samples) -}}
{{- end -}}
{{- $_ := set $benchmarks $name $filled -}}
{{- end -}}
{{- if not $benchmarks -}}
{{- fail (printf "job.evaluate.benchmarks is empty, but task evaluate needs a benchmark: name one, such as %s"
  (ternary "gsm8k" "math500" (eq .Values.job.framework "verl"))) -}}
{{- end -}}
{{- toJson $benchmarks -}}
{{- end }}

{{/* grpo.checkEngines $: verl evaluates with the engines of the run. */}}
{{- define "grpo.checkEngines" -}}
{{- $evaluate := .Values.job.evaluate -}}
{{- $size := int64 $evaluate.tensorParallelSize -}}{{- $gpus := int64 .Values.accelerator.gpusPerNode -}}
{{- if and (eq .Values.job.framework "verl") (or (gt $size 1) $evaluate.vllmKwargs) -}}
{{- fail (print "job.evaluate.tensorParallelSize and job.evaluate.vllmKwargs have no effect, because verl evaluates "
  "with the engines of the run (actor_rollout_ref.rollout): remove them") -}}
{{- end -}}
{{- if and $gpus (mod $gpus $size) -}}
{{- fail (printf "job.evaluate.tensorParallelSize is %d, which does not divide the %d GPUs of a node. Choose a divisor"
  $size $gpus) -}}
{{- end -}}
{{- end }}

{{/* grpo.checkBenchmark (list $ NAME): by framework, version, and access to the web. */}}
{{- define "grpo.checkBenchmark" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.checkBenchmark takes (list $ NAME)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $job := $root.Values.job -}}
{{- if and (eq $job.framework "verl") (ne $name "gsm8k") -}}
{{- fail (printf (print "job.evaluate.benchmarks.%s: verl has no evaluation of its own, and its validation knows "
  "only gsm8k. Set it to null, or evaluate the converted model in a stack with job.framework nemo-rl") $name) -}}
{{- end -}}
{{- if and (eq $name "aime2026") (semverCompare "<0.7.0" $job.version) -}}
{{- fail (printf "job.evaluate.benchmarks.aime2026: NeMo RL %s lacks it, v0.7.0 has it. Set it to null"
  $job.version) -}}
{{- end -}}
{{- if and (eq $name "math500") $root.Values.huggingface.offline.enabled -}}
{{- fail (print "job.evaluate.benchmarks.math500: NeMo RL downloads it, but huggingface.offline is enabled. "
  "Set it to null") -}}
{{- end -}}
{{- end }}
