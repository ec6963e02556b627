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

{{/* grpo.specText: spec of the RayJob around its entrypoint, as YAML, with the wiring of its pods where WIRED is true.
                                                                  include "grpo.specText" (list $ $entrypoint WIRED) */}}
{{- define "grpo.specText" -}}
{{- if ne (len .) 3 }}{{ fail "grpo.specText takes (list $ ENTRYPOINT WIRED)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $entrypoint := index . 1 -}}
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
  {{- include "common.raycluster.spec" (list $root (include "grpo.ephemeralReplicas" $root) (index . 2)) | nindent 2 }}
{{- end }}
{{- end }}

{{/* grpo.spec: lock and digest of the spec, and the spec without wiring where the charts do not wire, as JSON. The digest is that of the lock before it is put into its own place. The lock is
     the spec with its wiring, whoever brings it: a run is the same run by the charts and by the post-renderer. The lock and the RayJob
     need it, and all templates see the same .Release: it is made once a render.
                                                                  include "grpo.spec" $ | fromJson */}}
{{- define "grpo.spec" -}}
{{- if not (hasKey .Release "grpoSpec") -}}
{{- $place := include "grpo.digestPlace" . -}}
{{- $entrypoint := include "grpo.entrypoint" . -}}
{{- $wired := include "grpo.specText" (list . $entrypoint true) -}}
{{- $digest := sha256sum $wired -}}
{{- $spec := dict "digest" $digest "lock" (replace $place $digest $wired) -}}
{{- if not .Values.stack.wiring.enabled -}}
{{- $_ := set $spec "unwired" (include "grpo.specText" (list . $entrypoint false) | replace $place $digest) -}}
{{- end -}}
{{- $_ := set .Release "grpoSpec" (toJson $spec) -}}
{{- end -}}
{{- .Release.grpoSpec -}}
{{- end }}

{{- define "grpo.digestPlace" }}(sha256 of this spec){{ end }}
