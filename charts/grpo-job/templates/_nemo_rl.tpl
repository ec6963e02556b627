{{/*
NeMo RL: a script of the image's source tree reads one YAML file, which names its base file under `defaults`. The parts
are called by include "grpo.framework" (list $ PART).

part                        returns
workingDirectory            the source tree in the image
model                       the model that is trained
modelKey                    the configuration's key for it
command                     the command of the driver, as JSON list
checks                      commands that run before GPUs are waited for, as JSON list
requiredFiles               files that the image must hold, as JSON list
inputs                      paths that the run reads besides data and model, as JSON list
environment                 variables that the framework reads, as JSON map
check                       nothing; fails where this version cannot run
derived                     configuration that follows from the other values, as JSON
rewardKeys                  configuration keys that job.rewards decides, as JSON list of paths

call                                                returns
include "grpo.nemo-rl.script" $                     the script, relative to the source tree
include "grpo.nemo-rl.base" $                       the base file
include "grpo.nemo-rl.rewards" $ | fromJson         configuration that puts job.rewards in place
include "grpo.nemo-rl.logger" (list $ "/logs")      section logger, as JSON
*/}}

{{/* grpo.nemo-rl.workingDirectory $: where NVIDIA's image has it. */}}
{{- define "grpo.nemo-rl.workingDirectory" -}}/opt/nemo-rl{{- end }}

{{/* grpo.nemo-rl.script $: run_grpo.py exists from v0.5.0, run_grpo_math.py until v0.5.0. The Single Controller has a
     script of its own, from v0.8.0 on: a section async_rl in the configuration chooses it. */}}
{{- define "grpo.nemo-rl.script" -}}
{{- $name := "run_grpo" -}}
{{- if eq .Values.job.version "v0.4.0" -}}
{{- $name = "run_grpo_math" -}}
{{- else if and (semverCompare ">=0.8.0" .Values.job.version) (include "grpo.mergedConfig" . | fromJson).async_rl -}}
{{- $name = "run_grpo_single_controller" -}}
{{- end -}}
{{- printf "examples/%s.py" $name -}}
{{- end }}

{{/* grpo.nemo-rl.base $: all supported versions have this file. */}}
{{- define "grpo.nemo-rl.base" -}}
{{- printf "%s/examples/configs/grpo_math_1B.yaml" (include "grpo.nemo-rl.workingDirectory" .) -}}
{{- end }}

{{/* grpo.nemo-rl.command $: with job.rewards, a wrapper registers their environment and then runs the script. */}}
{{- define "grpo.nemo-rl.command" -}}
{{- $command := list "python3" -}}
{{- if ne (include "grpo.rewards" .) "{}" -}}
{{- $command = append $command (printf "%s/nemo_rl_rewards.py" (include "grpo.codeDirectory" .)) -}}
{{- end -}}
{{- $config := printf "%s/config.yaml" (include "grpo.attemptDirectory" .) -}}
{{- concat $command (list (include "grpo.nemo-rl.script" .) "--config" $config) | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.checks $: none. */}}
{{- define "grpo.nemo-rl.checks" }}[]{{ end }}

{{/* grpo.nemo-rl.requiredFiles $: script and base file. */}}
{{- define "grpo.nemo-rl.requiredFiles" -}}
{{- list (include "grpo.nemo-rl.script" .) (include "grpo.nemo-rl.base" .) | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.inputs $: none besides data and model. */}}
{{- define "grpo.nemo-rl.inputs" }}[]{{ end }}

{{/* grpo.nemo-rl.model $: the base file's model where the configuration names none. */}}
{{- define "grpo.nemo-rl.model" -}}
{{- $policy := (include "grpo.mergedConfig" . | fromJson).policy | default dict -}}
{{- get $policy "model_name" | default "Qwen/Qwen2.5-1.5B" -}}
{{- end }}

{{/* grpo.nemo-rl.modelKey $: policy, reference and vLLM read it. */}}
{{- define "grpo.nemo-rl.modelKey" }}policy.model_name{{ end }}

{{/* grpo.nemo-rl.environment $: none. */}}
{{- define "grpo.nemo-rl.environment" }}{}{{ end }}

{{/* grpo.nemo-rl.check $: NeMo RL before v0.7.0 reserves a CPU on every node of the Ray cluster, the head included,
     and waits forever where there is none. */}}
{{- define "grpo.nemo-rl.check" -}}
{{- $image := .Values.images.training -}}{{- $version := .Values.job.version -}}
{{- $isTheirs := and (hasSuffix "/nemo-rl" $image.repository) (regexMatch "^v[0-9]+\\.[0-9]+\\.[0-9]+$" $image.tag) -}}
{{- if and $isTheirs (ne $image.tag $version) -}}
{{- fail (printf (print "images.training.tag is %s, but job.version is %s: set both. The recipe has the pair for its "
  "version, values/frameworks/ those for the others [job/image-of-another-version]") $image.tag $version) -}}
{{- end -}}
{{- if and (semverCompare "<0.7.0" $version) (lt (include "common.headCpus" . | int64) 1) -}}
{{- fail (printf (print "ray.head.numCpus is 0, but job.version %s waits forever for a CPU on the Ray head: set it to "
  "1 [job/head-without-cpu]") $version) -}}
{{- end -}}
{{- end }}

{{/* grpo.nemo-rl.derived $: base file, nodes, folders, loggers, rewards. */}}
{{- define "grpo.nemo-rl.derived" -}}
{{- $directory := include "grpo.runDirectory" . -}}
{{- $nodes := include "grpo.nodes" . | int64 -}}
{{- dict
  "defaults" (include "grpo.nemo-rl.base" .)
  "cluster" (dict "num_nodes" $nodes "gpus_per_node" (int64 .Values.accelerator.gpusPerNode))
  "checkpointing" (dict "checkpoint_dir" (printf "%s/checkpoints" $directory))
  "logger" (include "grpo.nemo-rl.logger" (list . (printf "%s/logs" $directory)) | fromJson)
  | merge (include "grpo.nemo-rl.rewards" . | fromJson) | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.rewards $: job.rewards become the environment of the data. Versions before v0.6.0 have no
     data.default. */}}
{{- define "grpo.nemo-rl.rewards" -}}
{{- if eq (include "grpo.rewards" .) "{}" -}}
{}
{{- else -}}
{{- $name := dict "env_name" "rewards" -}}
{{- $data := ternary $name (dict "default" $name) (semverCompare "<0.6.0" .Values.job.version) -}}
{{- $workers := dig "env" "rewards" "num_workers" 8 (include "grpo.mergedConfig" . | fromJson) | int64 -}}
{{- dict "data" $data "env" (dict "rewards" (dict "num_workers" $workers)) | toJson -}}
{{- end -}}
{{- end }}

{{/* grpo.nemo-rl.rewardKeys $: of all supported versions. */}}
{{- define "grpo.nemo-rl.rewardKeys" -}}
{{- list
  (list "data" "env_name")
  (list "data" "default" "env_name")
  (list "data" "train" "env_name")
  (list "data" "validation" "env_name")
  (list "env" "rewards") | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.logger (list $ DIRECTORY): where and how the run logs. */}}
{{- define "grpo.nemo-rl.logger" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.nemo-rl.logger takes (list $ DIRECTORY)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $tracking := $root.Values.tracking -}}{{- $run := $root.Values.job.name -}}
{{- $logger := dict
  "log_dir" (index . 1)
  "tensorboard_enabled" $tracking.tensorboard.enabled
  "wandb_enabled" $tracking.wandb.enabled
  "mlflow_enabled" $tracking.mlflow.enabled -}}
{{- with $tracking.wandb -}}
{{- if .enabled }}{{ $_ := set $logger "wandb" (dict "project" .project "name" (.name | default $run)) }}{{ end -}}
{{- end -}}
{{- with $tracking.mlflow -}}
{{- if .enabled -}}
{{- $uri := include "grpo.mlflowUri" $root -}}
{{- $names := dict "experiment_name" .experiment "run_name" (.name | default $run) -}}
{{- $_ := set $logger "mlflow" (merge (dict "tracking_uri" $uri) $names) -}}
{{- end -}}
{{- end -}}
{{- toJson $logger -}}
{{- end }}
