{{/*
verl: `python3 -m verl.trainer.main_ppo` composes one YAML file over the defaults that the package ships, with Hydra.
The driver stays on the head. TaskRunner and workers are Ray actors: they get their pod's variables and
ray_init.runtime_env, not the driver's environment. The parts are called by include "grpo.framework" (list $ PART).

part                        returns
workingDirectory            an empty folder: verl is a package, and Python looks for modules where it starts
model                       the model that is trained
modelKey                    the configuration's key for it
command                     the command of the driver, as JSON list
checks                      commands that run before GPUs are waited for, as JSON list
requiredFiles               files that the image must hold, as JSON list
inputs                      paths that the run reads besides data and model, as JSON list
environment                 variables that the framework reads, as JSON map
check                       nothing; fails where this version cannot run (_verl_check.tpl)
derived                     configuration that follows from the other values, as JSON
rewardKeys                  configuration keys that job.rewards decides, as JSON list of paths

call                                            returns
include "grpo.verl.rewards" $ | fromJson        configuration that puts job.rewards in place
include "grpo.verl.storage" $ | fromJson        where TransferQueue keeps the data of a step
include "grpo.verl.tracking" $ | fromJson       loggers, and the one pair of names that they share
*/}}

{{/* grpo.verl.workingDirectory $: the launcher replaces {programs}. */}}
{{- define "grpo.verl.workingDirectory" }}{programs}/work{{ end }}

{{/* grpo.verl.model $: verl has no default that could be trained. */}}
{{- define "grpo.verl.model" -}}
{{- $model := (include "grpo.mergedConfig" . | fromJson).actor_rollout_ref | default dict | dig "model" "path" "" -}}
{{- if not $model -}}
{{- fail "job.config.actor_rollout_ref.model.path is empty, and verl has no model of its own: name one" -}}
{{- end -}}
{{- $model -}}
{{- end }}

{{/* grpo.verl.modelKey $: actor, reference and rollout read it. */}}
{{- define "grpo.verl.modelKey" }}actor_rollout_ref.model.path{{ end }}

{{/* grpo.verl.command $: the attempt's folder holds config.yaml. */}}
{{- define "grpo.verl.command" -}}
{{- $directory := include "grpo.attemptDirectory" . -}}
{{- list "python3" "-m" "verl.trainer.main_ppo" "--config-dir" $directory "--config-name" "config" | toJson -}}
{{- end }}

{{/* grpo.verl.requiredFiles $: none. */}}
{{- define "grpo.verl.requiredFiles" }}[]{{ end }}

{{/* grpo.verl.checks $: verl's images do not hold verl itself. */}}
{{- define "grpo.verl.checks" -}}
{{- $code := print "import importlib.util as u, sys; sys.exit(None if u.find_spec('verl') else "
  "'grpo: verl is neither in the image nor under job.code')" -}}
{{- list (list "python3" "-c" $code) | toJson -}}
{{- end }}

{{/* grpo.verl.environment $: verl reads only from variables where its loggers write. */}}
{{- define "grpo.verl.environment" -}}
{{- $logs := printf "%s/logs" (include "grpo.runDirectory" .) -}}
{{- $tracking := .Values.tracking -}}
{{- $variables := dict -}}
{{- if $tracking.tensorboard.enabled }}{{ $_ := set $variables "TENSORBOARD_DIR" $logs }}{{ end -}}
{{- if $tracking.wandb.enabled }}{{ $_ := set $variables "WANDB_DIR" $logs }}{{ end -}}
{{- if $tracking.mlflow.enabled -}}
{{- $_ := set $variables "MLFLOW_TRACKING_URI" (include "grpo.mlflowUri" .) -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* grpo.verl.derived $: num_cpus is null, because Ray refuses it where a cluster exists. */}}
{{- define "grpo.verl.derived" -}}
{{- $directory := include "grpo.runDirectory" . -}}
{{- $trainer := dict
  "nnodes" (include "grpo.nodes" . | int64)
  "n_gpus_per_node" (int64 .Values.accelerator.gpusPerNode)
  "default_local_dir" (printf "%s/checkpoints" $directory) -}}
{{- if not (hasKey ((include "grpo.mergedConfig" . | fromJson).trainer | default dict) "rollout_data_dir") -}}
{{- $_ := set $trainer "rollout_data_dir" (printf "%s/logs/rollouts" $directory) -}}
{{- end -}}
{{- $variables := include "grpo.environment" . | fromJson -}}
{{- with $variables.PYTHONPATH -}}
{{- /* Ray replaces it in each worker: its pod may have modules of its own. Hydra would resolve a name in braces. */ -}}
{{- $_ := set $variables "PYTHONPATH" (printf "%s:$PYTHONPATH" .) -}}
{{- end -}}
{{- $runtime := dict "env_vars" $variables -}}
{{- $derived := dict
  "defaults" (list "ppo_trainer" "_self_")
  "hydra" (dict "run" (dict "dir" (include "grpo.attemptDirectory" .)) "output_subdir" ".hydra")
  "trainer" (merge $trainer (include "grpo.verl.tracking" . | fromJson))
  "ray_kwargs" (dict "ray_init" (dict "num_cpus" nil "runtime_env" $runtime)) -}}
{{- merge $derived (include "grpo.verl.rewards" . | fromJson) (include "grpo.verl.storage" . | fromJson) | toJson -}}
{{- end }}

{{/* grpo.verl.storage $: from 0.9.0 TransferQueue ties an actor to each node in turn, also to a head on which Ray has
     no CPU for it, and then verl ends at once. */}}
{{- define "grpo.verl.storage" -}}
{{- $queue := (include "grpo.mergedConfig" . | fromJson).transfer_queue | default dict -}}
{{- $set := dig "backend" "SimpleStorage" "required_node_resource" "" $queue -}}
{{- if or (semverCompare "<0.9.0" .Values.job.version) $set -}}
{}
{{- else -}}
{{- $storage := dict "SimpleStorage" (dict "required_node_resource" "GPU") -}}
{{- dict "transfer_queue" (dict "backend" $storage) | toJson -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.rewards $: job.rewards become the reward function, which moved below reward in 0.7.0. */}}
{{- define "grpo.verl.rewards" -}}
{{- if eq (include "grpo.rewards" .) "{}" -}}
{}
{{- else -}}
{{- $path := printf "%s/verl_reward.py" (include "grpo.codeDirectory" .) -}}
{{- $function := dict "custom_reward_function" (dict "path" $path "name" "compute_score") -}}
{{- ternary $function (dict "reward" $function) (semverCompare "<0.7.0" .Values.job.version) | toJson -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.rewardKeys $: of all supported versions. */}}
{{- define "grpo.verl.rewardKeys" -}}
{{- list (list "custom_reward_function") (list "reward" "custom_reward_function") | toJson -}}
{{- end }}

{{/* grpo.verl.tracking $: verl has one project and one name for all loggers. */}}
{{- define "grpo.verl.tracking" -}}
{{- $tracking := .Values.tracking -}}{{- $run := .Values.job.name -}}
{{- $loggers := list "console" -}}{{- $names := list -}}
{{- range $logger := list "tensorboard" "wandb" "mlflow" -}}
{{- if (get $tracking $logger).enabled }}{{ $loggers = append $loggers $logger }}{{ end -}}
{{- end -}}
{{- with $tracking.wandb -}}
{{- if .enabled }}{{ $names = append $names (list .project (.name | default $run)) }}{{ end -}}
{{- end -}}
{{- with $tracking.mlflow -}}
{{- if .enabled }}{{ $names = append $names (list .experiment (.name | default $run)) }}{{ end -}}
{{- end -}}
{{- $keys := dict "logger" $loggers -}}
{{- with $names -}}
{{- if ne (first . | join "/") (last . | join "/") -}}
{{- fail (printf (print "verl has one project and one name for all loggers, but tracking.wandb has %s and "
  "tracking.mlflow has %s (project/name): make them equal") (first . | join "/") (last . | join "/")) -}}
{{- end -}}
{{- $_ := set $keys "project_name" (first . | first) -}}{{- $_ := set $keys "experiment_name" (first . | last) -}}
{{- end -}}
{{- toJson $keys -}}
{{- end }}
