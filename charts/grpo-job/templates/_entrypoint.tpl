{{/*
The entrypoint: the shell command of the Ray job. It carries the plan and the programs, so nothing needs to be mounted:
an existing cluster cannot be given a mount.

call                                            returns
include "grpo.entrypoint" $                     the shell command
include "grpo.entrypoint.command" $             the same, before its size is checked
include "grpo.digest" (list $ $entrypoint)      digest of the RayJob's spec
include "grpo.digestPlace" $                    the text in the entrypoint that the digest replaces
include "grpo.file" (list "files.py" $text)     a part of the command that writes one file
include "grpo.programs" $ | fromJsonArray       files of jobs/ that the job needs
include "grpo.checkRuntimeEnv" $                nothing; fails where Ray would not merge job.runtimeEnv
*/}}

{{/* grpo.entrypoint $: Ray gives it to sh, and the quoted here-documents keep sh from reading anything in them. -I:
     no module of the folder in which the job starts stands in for one of Python's. */}}
{{- define "grpo.entrypoint" -}}
{{- include "grpo.checkRuntimeEnv" . -}}
{{- $command := include "grpo.entrypoint.command" . -}}
{{- if gt (len $command) 98304 -}}
{{- fail (printf (print "the entrypoint has %d bytes, but Ray refuses 128 KiB or more (the limit here is 98304): "
  "shorten the files of job.rewards, job.prompts or job.config") (len $command)) -}}
{{- end -}}
{{- $command -}}
{{- end }}

{{/* grpo.entrypoint.command $: the plan comes first. */}}
{{- define "grpo.entrypoint.command" -}}
{{- $root := . -}}
set -eu
exec 3<<'GRPO_PLAN'
{{ include "grpo.plan" . }}
GRPO_PLAN
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
{{- range $path := include "grpo.programs" $root | fromJsonArray }}
{{- $text := $root.Files.Get (printf "files/jobs/%s" $path) }}
{{ include "grpo.file" (list (ternary "__main__.py" (base $path) (eq $path "launcher/launch.py")) $text) }}
{{- end }}
{{- with include "grpo.sharedFiles" $root | fromJson }}
mkdir "$programs/rewards" "$programs/prompts"
{{- range $name, $text := . }}
{{ include "grpo.file" (list $name $text) }}
{{- end }}
{{- end }}
exec python3 -I "$programs"
{{- end }}

{{/* grpo.digest (list $ ENTRYPOINT): of the spec with its wiring, before the digest takes its own place in it. */}}
{{- define "grpo.digest" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.digest takes (list $ ENTRYPOINT)" }}{{ end -}}
{{- include "grpo.rayjob.spec" (list (index . 0) (index . 1) true) | sha256sum -}}
{{- end }}

{{/* grpo.digestPlace $: it stands in the plan. */}}
{{- define "grpo.digestPlace" }}(sha256 of this spec){{ end }}

{{/* grpo.file (list NAME TEXT): the file lies beside the program. */}}
{{- define "grpo.file" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.file takes (list NAME TEXT)" }}{{ end -}}
{{- $name := index . 0 -}}
{{- $text := index . 1 | required (printf "jobs/*/%s is missing from the chart" $name) | trimSuffix "\n" -}}
cat >"$programs/{{ $name }}" <<'GRPO_FILE'
{{ $text }}
GRPO_FILE
{{- end }}

{{/* grpo.programs $: launcher/launch.py is the main program of each job; all files run side by side in one folder. */}}
{{- define "grpo.programs" -}}
{{- $programs := list "launcher/launch.py" "common/runtime.py" "common/files.py" "launcher/configuration.py"
  "launcher/cluster_facts.py" "launcher/owner.py" "launcher/trainer.py" "launcher/workers.py"
  "launcher/ray_nodes.py" -}}
{{- $engine := ternary "nemo_rl_evaluation.py" "verl_evaluation.py" (eq .Values.job.framework "nemo-rl") -}}
{{- $own := dict
  "fetch" (list "common/task.py" "tasks/fetch.py" "tasks/fetch_code.py" "tasks/fetch_tables.py" "tasks/code_digest.py"
    "tasks/hub_cache.py")
  "prepare-data" (list "common/task.py" "tasks/prepare_data.py" "tasks/hub_cache.py")
  "convert" (list "common/task.py" "tasks/convert.py" "tasks/tensors.py" "inspection/checkpoints.py")
  "evaluate" (list "common/task.py" "evaluation/evaluate.py" (printf "evaluation/%s" $engine)
    "evaluation/model_staging.py" "evaluation/child_process.py" "inspection/checkpoints.py")
  "clean" (list "common/task.py" "tasks/clean.py") -}}
{{- $own = get $own .Values.job.task | default list -}}
{{- if and (include "grpo.trains" .) (include "grpo.code" . | fromJson) -}}
{{- $own = list "tasks/code_digest.py" -}}
{{- end -}}
{{- concat $programs $own | toJson -}}
{{- end }}

{{/* grpo.checkRuntimeEnv $: job.runtimeEnv goes to Ray as it is. */}}
{{- define "grpo.checkRuntimeEnv" -}}
{{- if (.Values.job.runtimeEnv | default dict).env_vars -}}
{{- fail (print "job.runtimeEnv.env_vars: the framework makes a runtime environment of its own, and Ray refuses to "
  "merge the two. Write the variables under job.env") -}}
{{- end -}}
{{- end }}
