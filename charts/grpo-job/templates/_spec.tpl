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
{{- $nodes := ternary (include "grpo.nodes" $root | int64) 1 (ne (include "grpo.trains" $root) "") -}}
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

{{/* grpo.neededInputs: files below a key that must lie on a volume when the run starts, and the task that makes each (empty: none of
     ours), as JSON.                                              include "grpo.neededInputs" (list $ "data" $config.data) | fromJson */}}
{{- define "grpo.neededInputs" -}}
{{- $root := index . 0 -}}{{- $value := index . 2 -}}{{- $needed := dict -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value }}{{ $needed = merge $needed (include "grpo.neededInputs" (list $root $key $inner) | fromJson) }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- range $inner := $value }}{{ $needed = merge $needed (include "grpo.neededInputs" (list $root (index $ 1) $inner) | fromJson) }}{{ end -}}
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

{{/* grpo.neededByTask: files that a task other than training needs, and the task that makes each, as JSON.
                                                                  include "grpo.neededByTask" $ | fromJson */}}
{{- define "grpo.neededByTask" -}}
{{- $task := .Values.job.task -}}{{- $needed := dict -}}
{{- if has $task (list "convert" "evaluate") }}{{ $needed = include "grpo.neededCode" . | fromJson }}{{ end -}}
{{- if and (eq $task "evaluate") (hasKey (include "common.entries" .Values.job.evaluate.benchmarks | fromJson) "gsm8k") -}}
{{- $_ := set $needed (printf "%s/gsm8k/test.%s" (include "grpo.datasets" .) (ternary "parquet" "jsonl" (eq .Values.job.framework "verl"))) "prepare-data" -}}
{{- end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.neededCode: record of the code that job.code puts on a volume, and the task that puts it there, as JSON.
                                                                  include "grpo.neededCode" $ | fromJson */}}
{{- define "grpo.neededCode" -}}
{{- $needed := dict -}}
{{- with include "grpo.code" . | fromJson }}{{ $_ := set $needed (printf "%s/grpo.json" .directory) "fetch" }}{{ end -}}
{{- toJson $needed -}}
{{- end }}

{{/* grpo.attemptDirectory: what this attempt writes and reads: configuration, output, code of its workers.
                                                                  include "grpo.attemptDirectory" $ */}}
{{- define "grpo.attemptDirectory" -}}
{{- printf "%s/attempts/%d" (include "grpo.jobDirectory" .) (int64 .Values.job.attempt) -}}
{{- end }}

{{/* grpo.printable: control characters that YAML does not allow, as JSON escapes.
                                                                  include "grpo.printable" $text */}}
{{- define "grpo.printable" -}}
{{- $text := . -}}
{{- range $i := until 33 }}{{ $text = $text | replace (printf "%c" (add 127 $i)) (printf "\\u%04x" (add 127 $i)) }}{{ end -}}
{{- $text | replace (printf "%c" 65279) "\\ufeff" -}}
{{- end }}

{{/* grpo.entrypoint: shell command of the Ray job, the plan first. Ray gives it to sh; the quoted here-documents keep sh from reading anything in
     them, and nothing needs to be mounted, because a cluster that runs cannot be given a mount. -I: no module of the folder in which
     the job starts stands in for one of Python's.
                                                                  include "grpo.entrypoint" $ */}}
{{- define "grpo.entrypoint" -}}
{{- $root := . -}}
set -eu
exec 3<<'GRPO_PLAN'
{{ include "grpo.plan" . }}
GRPO_PLAN
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
{{- range $name := include "grpo.programs" $root | fromJsonArray }}
{{ include "grpo.file" (list (ternary "__main__.py" $name (eq $name "launch.py")) ($root.Files.Get (printf "files/jobs/%s" $name))) }}
{{- end }}
{{- with include "grpo.sharedFiles" $root | fromJson }}
mkdir "$programs/rewards" "$programs/prompts"
{{- range $name, $text := . }}
{{ include "grpo.file" (list $name $text) }}
{{- end }}
{{- end }}
exec python3 -I "$programs"
{{- end }}

{{/* grpo.file: shell command that writes a text file beside the program.
                                                                  include "grpo.file" (list "base.py" $text) */}}
{{- define "grpo.file" -}}
{{- $text := index . 1 | required (printf "files/jobs/%s is missing from the chart" (index . 0)) | trimSuffix "\n" -}}
{{- if has "GRPO_FILE" (splitList "\n" $text) }}{{ fail (printf "%s: a line of it is GRPO_FILE, which ends the file in the entrypoint" (index . 0)) }}{{ end -}}
cat >"$programs/{{ index . 0 }}" <<'GRPO_FILE'
{{ $text }}
GRPO_FILE
{{- end }}

{{/* grpo.programs: files of jobs/ that the job needs, as JSON.     include "grpo.programs" $ | fromJsonArray */}}
{{- define "grpo.programs" -}}
{{- $programs := list "launch.py" "base.py" "configuration.py" "facts.py" "owner.py" "supervise.py" "workers.py" "ray_nodes.py" -}}
{{- $own := dict
  "fetch" (list "fetch.py" "fetch_code.py" "fetch_tables.py" "codetree.py" "hubcache.py" "tasklib.py")
  "prepare-data" (list "prepare_data.py" "hubcache.py" "tasklib.py")
  "convert" (list "convert.py" "checkpoints.py" "tensors.py" "tasklib.py")
  "evaluate" (list "evaluate.py" (ternary "nemo_eval.py" "verl_eval.py" (eq .Values.job.framework "nemo-rl")) "staging.py" "children.py" "checkpoints.py" "tasklib.py")
  "clean" (list "clean.py" "tasklib.py") -}}
{{- $own = get $own .Values.job.task | default list -}}
{{- if and (include "grpo.trains" .) (include "grpo.code" . | fromJson) }}{{ $own = list "codetree.py" "tasklib.py" }}{{ end -}}
{{- concat $programs $own | toJson -}}
{{- end }}

{{/* grpo.specText: spec of the RayJob, as YAML.                  include "grpo.specText" $ */}}
{{- define "grpo.specText" -}}
{{- $root := . -}}
{{- $entrypoint := include "grpo.entrypoint" . -}}
{{- if gt (len $entrypoint) 98304 -}}
{{- fail (printf "the entrypoint has %d bytes, and Ray starts none of 128 KiB or more (ours: 98304): shorten job.config, job.prompts or the files of job.rewards" (len $entrypoint)) -}}
{{- end -}}
entrypoint: |-
  {{- $entrypoint | nindent 2 }}
submissionMode: HTTPMode
{{- with $root.Values.job.runtimeEnv }}
{{- if .env_vars }}{{ fail "job.runtimeEnv.env_vars: the framework makes a runtime environment of its own, and Ray refuses to merge the two. Write the variables under job.env" }}{{ end }}
runtimeEnvYAML: {{ toYaml . | quote }}
{{- end }}
{{- if eq $root.Values.job.cluster.mode "existing" }}
clusterSelector:
  ray.io/cluster: {{ include "common.name" (list $root "cluster") | quote }}
{{- else }}
shutdownAfterJobFinishes: true
backoffLimit: {{ int64 $root.Values.job.retries }}
rayClusterSpec:
  {{- include "common.raycluster.spec" (list $root (include "grpo.ephemeralReplicas" $root)) | nindent 2 }}
{{- end }}
{{- end }}

{{/* grpo.spec: text and digest of the spec, as JSON. The digest is that of the text before it is put into its own place. The lock and the
     RayJob both need it, and all templates see the same .Release: it is made once a render.
                                                                  include "grpo.spec" $ | fromJson */}}
{{- define "grpo.spec" -}}
{{- if not (hasKey .Release "grpoSpec") -}}
{{- $text := include "grpo.specText" . -}}
{{- $digest := sha256sum $text -}}
{{- $_ := set .Release "grpoSpec" (dict "text" (replace (include "grpo.digestPlace" .) $digest $text) "digest" $digest | toJson) -}}
{{- end -}}
{{- .Release.grpoSpec -}}
{{- end }}

{{- define "grpo.digestPlace" }}(sha256 of this spec){{ end }}

{{/* grpo.ephemeralReplicas: GPU workers of a cluster that the job brings itself: what the task needs, and no node more.
                                                                  include "grpo.ephemeralReplicas" $ */}}
{{- define "grpo.ephemeralReplicas" -}}
{{- if include "grpo.trains" . -}}{{ int64 .Values.ray.workers.replicas }}
{{- else -}}{{ ternary 1 0 (and (ne (include "grpo.usesGpus" .) "") (not .Values.ray.head.gpus.enabled)) }}
{{- end -}}
{{- end }}

{{/* grpo.runName: name of the RayJob, which carries the task unless it is the training.
                                                                  include "grpo.runName" $ */}}
{{- define "grpo.runName" -}}
{{- $task := ternary "" (printf "-%s" .Values.job.task) (eq .Values.job.task "train") -}}
{{- $name := printf "%s%s-%d" .Values.job.name $task (int64 .Values.job.attempt) -}}
{{- $longest := printf "%s-prepare-data-%d" .Values.job.name (int64 .Values.job.attempt) -}}
{{- if gt (len $longest) 47 }}{{ fail (printf "the RayJob of a task would be called %s, which has %d characters, and KubeRay allows 47: shorten job.name" $longest (len $longest)) }}{{ end -}}
{{- $name -}}
{{- end }}
