{{/* NeMo RL: a script of the image's source tree reads one YAML file, which names its base file under `defaults`. */}}

{{- define "grpo.nemo-rl.workingDirectory" -}}/opt/nemo-rl{{- end }}

{{/* grpo.nemo-rl.script: run_grpo.py exists from v0.5.0, run_grpo_math.py until v0.5.0.
                                                                  include "grpo.nemo-rl.script" $ */}}
{{- define "grpo.nemo-rl.script" -}}
{{- ternary "examples/run_grpo_math.py" "examples/run_grpo.py" (eq .Values.job.version "v0.4.0") -}}
{{- end }}

{{- define "grpo.nemo-rl.base" -}}
{{- printf "%s/examples/configs/grpo_math_1B.yaml" (include "grpo.nemo-rl.workingDirectory" .) -}}
{{- end }}

{{- define "grpo.nemo-rl.command" -}}
{{- $wrapper := ternary (list (printf "%s/nemo_rl_rewards.py" (include "grpo.codeDirectory" .))) list (ne (include "grpo.rewards" .) "{}") -}}
{{- concat (list "python3") $wrapper (list (include "grpo.nemo-rl.script" .) "--config" (printf "%s/config.yaml" (include "grpo.attemptDirectory" .))) | toJson -}}
{{- end }}

{{- define "grpo.nemo-rl.checks" }}[]{{ end }}

{{- define "grpo.nemo-rl.requiredFiles" -}}
{{- list (include "grpo.nemo-rl.script" .) (include "grpo.nemo-rl.base" .) | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.model: the model of the base file where the configuration names none.
                                                                  include "grpo.framework" (list $ "model") */}}
{{- define "grpo.nemo-rl.model" -}}
{{- get ((include "grpo.overlaid" . | fromJson).policy | default dict) "model_name" | default "Qwen/Qwen2.5-1.5B" -}}
{{- end }}

{{- define "grpo.nemo-rl.environment" }}{}{{ end }}

{{/* grpo.nemo-rl.check: NeMo RL before v0.7.0 reserves a CPU on every node of the Ray cluster, the head included, and waits for ever
     where there is none.                                         include "grpo.framework" (list $ "check") */}}
{{- define "grpo.nemo-rl.check" -}}
{{- $tag := .Values.images.training.tag -}}
{{- if and (regexMatch "^v[0-9]+\\.[0-9]+\\.[0-9]+$" $tag) (hasSuffix "/nemo-rl" .Values.images.training.repository) (ne $tag .Values.job.version) -}}
{{- fail (printf "job.version is %s, and images.training has the tag %s: set both, as the recipe does for its version and values/frameworks/ for the others" .Values.job.version $tag) -}}
{{- end -}}
{{- if and (semverCompare "<0.7.0" .Values.job.version) (lt (include "common.headCpus" . | int64) 1) -}}
{{- fail (printf "job.version %s waits for ever for a CPU on the Ray head, and ray.head.numCpus is 0: set ray.head.numCpus to 1" .Values.job.version) -}}
{{- end -}}
{{- end }}

{{/* grpo.nemo-rl.derived: configuration that follows from the other values, as JSON.
                                                                  include "grpo.framework" (list $ "derived") | fromJson */}}
{{- define "grpo.nemo-rl.derived" -}}
{{- $directory := include "grpo.runDirectory" . -}}
{{- dict
  "defaults" (include "grpo.nemo-rl.base" .)
  "cluster" (dict "num_nodes" (include "grpo.nodes" . | int64) "gpus_per_node" (int64 .Values.accelerator.gpusPerNode))
  "checkpointing" (dict "checkpoint_dir" (printf "%s/checkpoints" $directory))
  "logger" (include "grpo.nemo-rl.logger" (list . (printf "%s/logs" $directory)) | fromJson) | merge (include "grpo.nemo-rl.rewards" . | fromJson) | toJson -}}
{{- end }}

{{/* grpo.nemo-rl.rewards: configuration that makes job.rewards the environment of the data, as JSON.
                                                                  include "grpo.nemo-rl.rewards" $ | fromJson */}}
{{- define "grpo.nemo-rl.rewards" -}}
{{- if eq (include "grpo.rewards" .) "{}" }}{}
{{- else -}}
{{- $name := dict "env_name" "rewards" -}}
{{- dict "data" (ternary $name (dict "default" $name) (semverCompare "<0.6.0" .Values.job.version)) "env" (dict "rewards" (dict "num_workers" (dig "env" "rewards" "num_workers" 8 (include "grpo.overlaid" . | fromJson) | int64))) | toJson -}}
{{- end -}}
{{- end }}

{{- define "grpo.nemo-rl.rewardKeys" -}}
{{- list (list "data" "env_name") (list "data" "default" "env_name") (list "data" "train" "env_name") (list "data" "validation" "env_name") (list "env" "rewards") | toJson -}}
{{- end }}

{{- define "grpo.nemo-rl.rewardPrograms" }}{{ list "nemo_rl_rewards.py" "nemo_rl_environment.py" | toJson }}{{ end }}

{{/* grpo.nemo-rl.logger: where and how a run logs, as JSON.
                                                                  include "grpo.nemo-rl.logger" (list $ "/data/runs/x/logs") | fromJson */}}
{{- define "grpo.nemo-rl.logger" -}}
{{- $root := index . 0 -}}
{{- $wandb := $root.Values.tracking.wandb -}}{{- $mlflow := $root.Values.tracking.mlflow -}}
{{- $logger := dict
  "log_dir" (index . 1)
  "tensorboard_enabled" $root.Values.tracking.tensorboard.enabled
  "wandb_enabled" $wandb.enabled
  "mlflow_enabled" $mlflow.enabled -}}
{{- if $wandb.enabled }}{{ $_ := set $logger "wandb" (dict "project" $wandb.project "name" ($wandb.name | default $root.Values.job.name)) }}{{ end -}}
{{- if $mlflow.enabled -}}
{{- $_ := set $logger "mlflow" (dict "tracking_uri" (include "grpo.mlflowUri" $root) "experiment_name" $mlflow.experiment "run_name" ($mlflow.name | default $root.Values.job.name)) -}}
{{- end -}}
{{- toJson $logger -}}
{{- end }}
