{{/* grpo.check: what the job cannot start with, whatever its framework, and then what its framework says.
                                                                  include "grpo.check" $ */}}
{{- define "grpo.check" -}}
{{- if and (eq .Values.job.cluster.mode "ephemeral") (eq .Values.job.name (include "common.name" (list . "cluster"))) -}}
{{- fail (printf "job.name is %s, and so is the stack's RayCluster: their pods would be taken for each other's. Choose another name" .Values.job.name) -}}
{{- end -}}
{{- if include "grpo.trains" . }}{{ include "grpo.framework" (list . "check") }}{{ end -}}
{{- end }}

{{/* grpo.environment: variables of the driver, as JSON map from name to text: ours, what the framework reads from variables, and job.env.
                                                                  include "grpo.environment" $ | fromJson */}}
{{- define "grpo.environment" -}}
{{- $environment := include "grpo.framework" (list . "environment") | fromJson -}}
{{- $_ := set $environment "GRPO_DATASETS" (include "grpo.datasets" .) -}}
{{- $modules := list -}}
{{- if and (include "grpo.trains" .) (ne (include "grpo.rewards" .) "{}") }}{{ $modules = append $modules (include "grpo.codeDirectory" .) }}{{ end -}}
{{- with include "grpo.code" . | fromJson }}{{ $modules = append $modules .directory }}{{ end -}}
{{- with $modules }}{{ $_ := set $environment "PYTHONPATH" (join ":" .) }}{{ end -}}
{{- if and (include "grpo.trains" .) (include "common.entries" .Values.job.prompts | fromJson) }}{{ $_ := set $environment "GRPO_PROMPTS" (printf "%s/prompts" (include "grpo.codeDirectory" .)) }}{{ end -}}
{{- $own := concat (keys $environment) (include "common.ownVariables" . | fromJsonArray) -}}
{{- range $name, $entry := include "common.variables" (list "job.env" .Values.job.env) | fromJson -}}
{{- if has $name $own -}}
{{- fail (printf "job.env.%s: the charts set %s themselves. Remove it, and change the value it follows from" $name $name) -}}
{{- end -}}
{{- if not (hasKey $entry "value") -}}
{{- fail (printf "job.env.%s: a driver on a cluster that runs cannot be given a secret. Write it under ray.env" $name) -}}
{{- end -}}
{{- $_ := set $environment $name $entry.value -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* grpo.plan: what the entrypoint's program has to do, as JSON.
                                                                  include "grpo.plan" $ */}}
{{- define "grpo.plan" -}}
{{- $root := . -}}
{{- $job := $root.Values.job -}}
{{- include "grpo.check" $root -}}
{{- $plan := dict
  "run" $job.name
  "attempt" (int64 $job.attempt)
  "digest" (include "grpo.digestPlace" .)
  "runDirectory" (include "grpo.jobDirectory" $root)
  "takeoverSeconds" (int64 $job.takeoverSeconds)
  "facts" (include "common.facts" $root | fromJson)
  "environment" (include "grpo.environment" $root | fromJson)
  "workingDirectory" (include "grpo.framework" (list $root "workingDirectory"))
  "retries" (ternary (int64 $job.retries) 0 (eq $job.cluster.mode "existing")) -}}
{{- if include "grpo.usesGpus" $root -}}
{{- $nodes := 1 -}}
{{- if include "grpo.trains" $root }}{{ $nodes = include "grpo.nodes" $root | int64 }}
{{- else if not $root.Values.accelerator.gpusPerNode -}}
{{- fail (printf "accelerator %s has no GPUs, and task %s needs some: choose another profile" $root.Values.accelerator.name $job.task) -}}
{{- end -}}
{{- $_ := set $plan "workers" (dict "nodes" $nodes "gpus" (int64 $root.Values.accelerator.gpusPerNode) "timeoutSeconds" (int64 $job.workersTimeoutSeconds)) -}}
{{- end -}}
{{- merge $plan (include (ternary "grpo.training" "grpo.otherTask" (eq $job.task "train")) $root | fromJson) | toPrettyJson | include "grpo.printable" -}}
{{- end }}

{{/* grpo.training: part of the plan of a job that trains, as JSON.     include "grpo.training" $ | fromJson */}}
{{- define "grpo.training" -}}
{{- $config := include "grpo.config" . | fromJson -}}
{{- $needed := include "grpo.neededInputs" (list . "data" (get $config "data")) | fromJson -}}
{{- $needed = merge $needed (include "grpo.neededInputs" (list . "model" (include "grpo.framework" (list . "model"))) | fromJson) -}}
{{- dict
  "identity" (include "grpo.identity" . | fromJson)
  "folders" (list "checkpoints" "logs")
  "command" (include "grpo.framework" (list . "command") | fromJsonArray)
  "requiredFiles" (include "grpo.framework" (list . "requiredFiles") | fromJsonArray)
  "neededFiles" (merge $needed (include "grpo.neededCode" . | fromJson))
  "checks" (concat (include "grpo.framework" (list . "checks") | fromJsonArray) (ternary list (list (list "python3" (printf "%s/rewards.py" (include "grpo.codeDirectory" .)))) (eq (include "grpo.rewards" .) "{}")))
  "code" (get (include "grpo.code" . | fromJson | default dict) "directory" | default "")
  "shared" (keys (include "grpo.sharedFiles" . | fromJson) | sortAlpha)
  "config" $config | toJson -}}
{{- end }}

{{/* grpo.identity: by what a run directory is known as this run's, as JSON.
                                                                  include "grpo.identity" $ | fromJson */}}
{{- define "grpo.identity" -}}
{{- dict "run" .Values.job.name "stack" .Values.stack.name "framework" .Values.job.framework "model" (include "grpo.framework" (list . "model")) | toJson -}}
{{- end }}

{{/* grpo.otherTask: part of the plan of any other task, as JSON.       include "grpo.otherTask" $ | fromJson */}}
{{- define "grpo.otherTask" -}}
{{- $program := printf "{programs}/%s.py" (.Values.job.task | replace "-" "_") -}}
{{- $command := list "python3" $program (printf "%s/task.json" (include "grpo.attemptDirectory" .)) -}}
{{- $plan := dict -}}
{{- /* Another stack on the same volume may have a run of this name. The base model alone can be evaluated before the run. */ -}}
{{- if or (has .Values.job.task (list "convert" "clean")) (and (eq .Values.job.task "evaluate") .Values.job.evaluate.checkpoint.enabled) -}}
{{- $plan = dict "of" (include "grpo.runDirectory" .) "identity" (include "grpo.identity" . | fromJson) -}}
{{- end -}}
{{- if eq .Values.job.task "evaluate" }}{{ $_ := set $plan "checks" (list (append $command "--check")) }}{{ end -}}
{{- merge $plan (dict
  "command" $command
  "neededFiles" (include "grpo.neededByTask" . | fromJson)
  "task" (include "grpo.task" . | fromJson)) | toJson -}}
{{- end }}

{{/* grpo.printable: control characters that YAML does not allow, as JSON escapes.
                                                                  include "grpo.printable" $text */}}
{{- define "grpo.printable" -}}
{{- $text := . -}}
{{- range $i := until 33 }}{{ $text = $text | replace (printf "%c" (add 127 $i)) (printf "\\u%04x" (add 127 $i)) }}{{ end -}}
{{- $text | replace (printf "%c" 65279) "\\ufeff" -}}
{{- end }}
