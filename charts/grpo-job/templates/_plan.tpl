{{/*
The plan: what the entrypoint's program does, as JSON.

call                                            returns
include "grpo.plan" $                           the whole plan
include "grpo.training" $ | fromJson            its part for a training
include "grpo.otherTask" $ | fromJson           its part for any other task
include "grpo.environment" $ | fromJson         variables of the driver, by name
include "grpo.identity" $ | fromJson            what makes a run directory this run's
include "grpo.printable" $text                  the text with JSON escapes for what YAML does not allow
include "grpo.check" $                          nothing; fails where the job cannot start
*/}}

{{/* grpo.check $: first what holds for every framework. */}}
{{- define "grpo.check" -}}
{{- $cluster := include "common.name" (list . "cluster") -}}
{{- if and (eq .Values.job.cluster.mode "ephemeral") (eq .Values.job.name $cluster) -}}
{{- fail (printf (print "job.name is %s, which is also the name of the stack's RayCluster: their pods could not be "
  "told apart. Choose another name") .Values.job.name) -}}
{{- end -}}
{{- $lapse := int64 .Values.job.lapseSeconds -}}
{{- if lt (int64 .Values.job.takeoverSeconds) (add $lapse 60) -}}
{{- fail (printf (print "job.takeoverSeconds is %d and job.lapseSeconds %d: an attempt would give up before a dead one "
  "counts as dead. Set job.takeoverSeconds to %d or more")
  (int64 .Values.job.takeoverSeconds) $lapse (add $lapse 60)) -}}
{{- end -}}
{{- if include "grpo.trains" . }}{{ include "grpo.framework" (list . "check") }}{{ end -}}
{{- end }}

{{/* grpo.environment $: ours, what the framework reads from variables, and job.env. */}}
{{- define "grpo.environment" -}}
{{- $environment := include "grpo.framework" (list . "environment") | fromJson -}}
{{- $_ := set $environment "GRPO_DATASETS" (include "grpo.datasets" .) -}}
{{- $trains := include "grpo.trains" . -}}
{{- $code := include "grpo.codeDirectory" . -}}
{{- $modules := list -}}
{{- if and $trains (ne (include "grpo.rewards" .) "{}") }}{{ $modules = append $modules $code }}{{ end -}}
{{- with include "grpo.code" . | fromJson }}{{ $modules = append $modules .directory }}{{ end -}}
{{- with $modules }}{{ $_ := set $environment "PYTHONPATH" (join ":" .) }}{{ end -}}
{{- if and $trains (include "common.entries" .Values.job.prompts | fromJson) -}}
{{- $_ := set $environment "GRPO_PROMPTS" (printf "%s/prompts" $code) -}}
{{- end -}}
{{- $own := concat (keys $environment) (include "common.ownVariables" . | fromJsonArray) -}}
{{- range $name, $entry := include "common.variables" (list "job.env" .Values.job.env) | fromJson -}}
{{- if has $name $own -}}
{{- fail (printf (print "job.env.%s: the charts set %s themselves. Remove it, and change the value that "
  "it is computed from [job/variable-of-the-charts]") $name $name) -}}
{{- end -}}
{{- if not (hasKey $entry "value") -}}
{{- fail (printf (print "job.env.%s: the driver cannot get a Secret on a running cluster. Write it under ray.env "
  "[job/variable-of-the-charts]") $name) -}}
{{- end -}}
{{- $_ := set $environment $name $entry.value -}}
{{- end -}}
{{- if $trains }}{{ $environment = merge $environment (include "grpo.guardVariables" . | fromJson) }}{{ end -}}
{{- toJson $environment -}}
{{- end }}

{{/* grpo.plan $: pretty JSON, because people read it in the RayJob. */}}
{{- define "grpo.plan" -}}
{{- $job := .Values.job -}}
{{- $gpus := .Values.accelerator.gpusPerNode -}}
{{- include "grpo.check" . -}}
{{- $plan := dict
  "run" $job.name
  "attempt" (int64 $job.attempt)
  "digest" (include "grpo.digestPlace" .)
  "runDirectory" (include "grpo.jobDirectory" .)
  "takeoverSeconds" (int64 $job.takeoverSeconds)
  "facts" (include "common.facts" . | fromJson)
  "environment" (include "grpo.environment" . | fromJson)
  "workingDirectory" (include "grpo.framework" (list . "workingDirectory"))
  "retries" (ternary (int64 $job.retries) 0 (eq $job.cluster.mode "existing")) -}}
{{- with int64 $job.deadlineSeconds -}}
{{- $_ := set $plan "deadline" (dict "SIGTERM" . "SIGKILL" (add . (int64 $.Values.ray.head.jobStopSeconds))) -}}
{{- end -}}
{{- if include "grpo.usesGpus" . -}}
{{- $nodes := 1 -}}
{{- if include "grpo.trains" . -}}
{{- $nodes = include "grpo.nodes" . | int64 -}}
{{- else if not $gpus -}}
{{- fail (printf (print "accelerator.gpusPerNode of %s is 0, but task %s needs GPUs: choose another profile "
  "[job/profile-without-gpus]") .Values.accelerator.name $job.task) -}}
{{- end -}}
{{- $timeout := int64 $job.workersTimeoutSeconds -}}
{{- $_ := set $plan "workers" (dict "nodes" $nodes "gpus" (int64 $gpus) "timeoutSeconds" $timeout) -}}
{{- end -}}
{{- $part := include (ternary "grpo.training" "grpo.otherTask" (eq $job.task "train")) . | fromJson -}}
{{- merge $plan $part | toPrettyJson | include "grpo.printable" -}}
{{- end }}

{{/* grpo.training $: with the whole configuration of the framework. */}}
{{- define "grpo.training" -}}
{{- $config := include "grpo.config" . | fromJson -}}
{{- $inputs := include "grpo.framework" (list . "inputs") | fromJsonArray -}}
{{- $inputs = concat $inputs (list (get $config "data") (include "grpo.framework" (list . "model"))) -}}
{{- $needed := include "grpo.neededInputs" (list . $inputs) | fromJson -}}
{{- $checks := include "grpo.framework" (list . "checks") | fromJsonArray -}}
{{- if ne (include "grpo.rewards" .) "{}" -}}
{{- $checks = append $checks (list "python3" (printf "%s/rewards.py" (include "grpo.codeDirectory" .))) -}}
{{- end -}}
{{- $plan := dict
  "identity" (include "grpo.identity" . | fromJson)
  "folders" (list "checkpoints" "logs")
  "command" (include "grpo.framework" (list . "command") | fromJsonArray)
  "requiredFiles" (include "grpo.framework" (list . "requiredFiles") | fromJsonArray)
  "neededFiles" (merge $needed (include "grpo.neededCode" . | fromJson))
  "code" (get (include "grpo.code" . | fromJson | default dict) "directory" | default "")
  "shared" (keys (include "grpo.sharedFiles" . | fromJson) | sortAlpha)
  "config" $config -}}
{{- with $checks }}{{ $_ := set $plan "checks" . }}{{ end -}}
{{- if .Values.job.guard.enabled }}{{ $_ := set $plan "guard" (include "grpo.guard" . | fromJson) }}{{ end -}}
{{- if .Values.job.stage }}{{ $_ := set $plan "stage" (include "grpo.stage" . | fromJson) }}{{ end -}}
{{- toJson $plan -}}
{{- end }}

{{/* grpo.identity $: the launcher refuses a run directory with another identity. */}}
{{- define "grpo.identity" -}}
{{- dict
  "run" .Values.job.name
  "stack" .Values.stack.name
  "framework" .Values.job.framework
  "model" (include "grpo.framework" (list . "model")) | toJson -}}
{{- end }}

{{/* grpo.otherTask $: of is the run whose directory the task reads. Another stack on the same volume may have a run
     of this name, so its identity is checked. The base model alone can be evaluated before the run. */}}
{{- define "grpo.otherTask" -}}
{{- $job := .Values.job -}}
{{- $program := printf "{programs}/%s.py" ($job.task | replace "-" "_") -}}
{{- $command := list "python3" $program (printf "%s/task.json" (include "grpo.attemptDirectory" .)) -}}
{{- $plan := dict -}}
{{- if or (has $job.task (list "convert" "clean")) (and (eq $job.task "evaluate") $job.evaluate.checkpoint.enabled) -}}
{{- $plan = dict "of" (include "grpo.runDirectory" .) "identity" (include "grpo.identity" . | fromJson) -}}
{{- end -}}
{{- if eq $job.task "evaluate" }}{{ $_ := set $plan "checks" (list (append $command "--check")) }}{{ end -}}
{{- merge $plan (dict
  "command" $command
  "neededFiles" (include "grpo.neededByTask" . | fromJson)
  "task" (include "grpo.task" . | fromJson)) | toJson -}}
{{- end }}

{{/* grpo.printable TEXT: control characters and the byte order mark. */}}
{{- define "grpo.printable" -}}
{{- $text := . -}}
{{- range $i := until 33 -}}
{{- $text = $text | replace (printf "%c" (add 127 $i)) (printf "\\u%04x" (add 127 $i)) -}}
{{- end -}}
{{- $text | replace (printf "%c" 65279) "\\ufeff" -}}
{{- end }}
