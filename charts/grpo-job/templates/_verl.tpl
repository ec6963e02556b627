{{/* verl: `python3 -m verl.trainer.main_ppo` composes one YAML file over the defaults that the package ships, with Hydra. The driver stays
     on the head; TaskRunner and workers are Ray actors that get their pod's variables and ray_init.runtime_env, not the driver's. */}}

{{/* grpo.verl.workingDirectory: verl is a package and not a source tree: an empty folder, for Python looks for modules there.
                                                                  include "grpo.framework" (list $ "workingDirectory") */}}
{{- define "grpo.verl.workingDirectory" }}{programs}/work{{ end }}

{{- define "grpo.verl.model" -}}
{{- $model := (include "grpo.overlaid" . | fromJson).actor_rollout_ref | default dict | dig "model" "path" "" -}}
{{- $model | required "job.config names no model: set actor_rollout_ref.model.path" -}}
{{- end }}

{{- define "grpo.verl.command" -}}
{{- list "python3" "-m" "verl.trainer.main_ppo" "--config-dir" (include "grpo.attemptDirectory" .) "--config-name" "config" | toJson -}}
{{- end }}

{{- define "grpo.verl.requiredFiles" }}[]{{ end }}

{{/* grpo.verl.checks: commands that find out before a GPU is waited for whether verl is there, as JSON.
                                                                  include "grpo.framework" (list $ "checks") | fromJsonArray */}}
{{- define "grpo.verl.checks" -}}
{{- $code := "import importlib.util as u, sys; sys.exit(None if u.find_spec('verl') else 'grpo: verl is neither in the image nor under job.code')" -}}
{{- list (list "python3" "-c" $code) | toJson -}}
{{- end }}

{{/* grpo.verl.environment: where its loggers write, which verl reads from variables only, as JSON.
                                                                  include "grpo.framework" (list $ "environment") | fromJson */}}
{{- define "grpo.verl.environment" -}}
{{- $logs := printf "%s/logs" (include "grpo.runDirectory" .) -}}
{{- $variables := dict -}}
{{- if .Values.tracking.tensorboard.enabled }}{{ $_ := set $variables "TENSORBOARD_DIR" $logs }}{{ end -}}
{{- if .Values.tracking.wandb.enabled }}{{ $_ := set $variables "WANDB_DIR" $logs }}{{ end -}}
{{- if .Values.tracking.mlflow.enabled }}{{ $_ := set $variables "MLFLOW_TRACKING_URI" (include "grpo.mlflowUri" .) }}{{ end -}}
{{- toJson $variables -}}
{{- end }}

{{/* grpo.verl.derived: configuration that follows from the other values, as JSON. num_cpus is refused by Ray where a cluster exists.
                                                                  include "grpo.framework" (list $ "derived") | fromJson */}}
{{- define "grpo.verl.derived" -}}
{{- $trainer := dict
  "nnodes" (include "grpo.nodes" . | int64)
  "n_gpus_per_node" (int64 .Values.accelerator.gpusPerNode)
  "default_local_dir" (printf "%s/checkpoints" (include "grpo.runDirectory" .)) -}}
{{- if not (hasKey ((include "grpo.overlaid" . | fromJson).trainer | default dict) "rollout_data_dir") }}{{ $_ := set $trainer "rollout_data_dir" (printf "%s/logs/rollouts" (include "grpo.runDirectory" .)) }}{{ end -}}
{{- $variables := include "grpo.environment" . | fromJson -}}
{{- dict
  "defaults" (list "ppo_trainer" "_self_")
  "hydra" (dict "run" (dict "dir" (include "grpo.attemptDirectory" .)) "output_subdir" "hydra")
  "trainer" (merge $trainer (include "grpo.verl.tracking" . | fromJson))
  "ray_kwargs" (dict "ray_init" (dict "num_cpus" nil "runtime_env" (dict "env_vars" $variables))) | merge (include "grpo.verl.rewards" . | fromJson) | toJson -}}
{{- end }}

{{/* grpo.verl.rewards: configuration that makes job.rewards the reward function, as JSON.
                                                                  include "grpo.verl.rewards" $ | fromJson */}}
{{- define "grpo.verl.rewards" -}}
{{- if eq (include "grpo.rewards" .) "{}" }}{}
{{- else -}}
{{- $function := dict "custom_reward_function" (dict "path" (printf "%s/verl_reward.py" (include "grpo.codeDirectory" .)) "name" "compute_score") -}}
{{- ternary $function (dict "reward" $function) (semverCompare "<0.7.0" .Values.job.version) | toJson -}}
{{- end -}}
{{- end }}

{{- define "grpo.verl.rewardKeys" }}{{ list (list "custom_reward_function") (list "reward" "custom_reward_function") | toJson }}{{ end }}

{{- define "grpo.verl.rewardPrograms" }}{{ list "verl_reward.py" | toJson }}{{ end }}

{{/* grpo.verl.tracking: loggers, and the one pair of names that they share, as JSON.
                                                                  include "grpo.verl.tracking" $ | fromJson */}}
{{- define "grpo.verl.tracking" -}}
{{- $tracking := .Values.tracking -}}
{{- $loggers := list "console" -}}{{- $names := list -}}
{{- range $logger := list "tensorboard" "wandb" "mlflow" -}}
{{- if (get $tracking $logger).enabled }}{{ $loggers = append $loggers $logger }}{{ end -}}
{{- end -}}
{{- with $tracking.wandb }}{{ if .enabled }}{{ $names = append $names (list .project (.name | default $.Values.job.name)) }}{{ end }}{{ end -}}
{{- with $tracking.mlflow }}{{ if .enabled }}{{ $names = append $names (list .experiment (.name | default $.Values.job.name)) }}{{ end }}{{ end -}}
{{- $keys := dict "logger" $loggers -}}
{{- with $names -}}
{{- if ne (first . | join "/") (last . | join "/") -}}
{{- fail (printf "verl has one name for all loggers, and tracking.wandb says %s, tracking.mlflow %s: make project and experiment equal, and the names too" (first . | join "/") (last . | join "/")) -}}
{{- end -}}
{{- $_ := set $keys "project_name" (first . | first) -}}{{- $_ := set $keys "experiment_name" (first . | last) -}}
{{- end -}}
{{- toJson $keys -}}
{{- end }}

{{/* grpo.verl.check: what verl would accept and then ignore, wait for without end, or look for in each pod by itself.
                                                                  include "grpo.framework" (list $ "check") */}}
{{- define "grpo.verl.check" -}}
{{- include "grpo.verl.checkCode" . -}}
{{- $version := .Values.job.version -}}{{- $config := include "grpo.config" . | fromJson -}}
{{- range $name, $value := include "grpo.environment" . | fromJson -}}
{{- if contains "${" $value }}{{ fail (printf "job.env.%s holds ${, which verl's configuration, through which it reaches the workers, takes for an interpolation: write it under ray.env" $name) }}{{ end -}}
{{- end -}}
{{- if and (semverCompare ">=0.9.0" $version) (hasKey .Values.job.runtimeEnv "py_executable") -}}
{{- fail (printf "job.runtimeEnv.py_executable: verl %s sets it too, and Ray refuses to merge the two. Remove it" $version) -}}
{{- end -}}
{{- $cpus := mul (int64 .Values.accelerator.gpusPerNode) (ternary 1 3 (semverCompare "<0.7.0" $version)) -}}
{{- if lt (int64 .Values.accelerator.worker.cpu) $cpus -}}
{{- fail (printf "verl %s reserves %d CPUs a node beside the GPUs and waits for them without end, and accelerator.worker.cpu is %v" $version $cpus .Values.accelerator.worker.cpu) -}}
{{- end -}}
{{- include "grpo.verl.checkRewardKeys" (list $version $config) -}}
{{- range $path := list "data.train_files" "data.val_files" "trainer.resume_from_path" "trainer.rollout_data_dir" "trainer.validation_data_dir" "custom_reward_function.path" "reward.custom_reward_function.path" -}}
{{- $value := $config -}}
{{- range splitList "." $path }}{{ $value = ternary (get ($value | default dict) .) nil (kindIs "map" $value) }}{{ end -}}
{{- range $file := ternary $value (list $value) (kindIs "slice" $value) -}}
{{- if and $file (not (regexMatch `^(/|\$\{|[a-z0-9+]+://)` (toString $file))) -}}
{{- fail (printf "job.config.%s: %v is relative, and each process of verl would look in its own pod: write an absolute path on a volume, such as ${oc.env:GRPO_DATASETS}/gsm8k/train.parquet" $path $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.checkRewardKeys: a reward written in another version's place is composed, ignored, and replaced by the default one.
                                                                  include "grpo.verl.checkRewardKeys" (list "0.9.1" $config) */}}
{{- define "grpo.verl.checkRewardKeys" -}}
{{- $version := index . 0 -}}{{- $config := index . 1 -}}
{{- if and (semverCompare "<0.7.0" $version) (hasKey $config "reward") -}}
{{- fail (printf "job.config.reward: verl %s ignores it and would use its own reward. Write custom_reward_function and reward_model, as that version spells them" $version) -}}
{{- end -}}
{{- if semverCompare ">=0.9.0" $version -}}
{{- range $key := list "custom_reward_function" "reward_model" "sandbox_fusion" -}}
{{- if hasKey $config $key }}{{ fail (printf "job.config.%s: verl %s ignores it and would use its own reward. Write it under reward, as that version spells it" $key $version) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.checkCode: the images that verl publishes hold what it needs, and not verl itself.
                                                                  include "grpo.verl.checkCode" $ */}}
{{- define "grpo.verl.checkCode" -}}
{{- $package := get .Values.job.code.packages "verl" | default "" -}}
{{- if and $package (ne $package .Values.job.version) -}}
{{- fail (printf "job.code.packages.verl is %s and job.version is %s: make them equal" $package .Values.job.version) -}}
{{- end -}}
{{- if and (hasSuffix "verlai/verl" .Values.images.training.repository) (not $package) (not .Values.job.code.repository) -}}
{{- fail (printf "image %s has no verl in it: set job.code.packages.verl to %s, and run task fetch once" (include "common.image" .) .Values.job.version) -}}
{{- end -}}
{{- end }}
