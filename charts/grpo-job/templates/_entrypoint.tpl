{{/*
The entrypoint: the shell command of the Ray job. It carries the plan and the programs, so nothing needs to be mounted:
an existing cluster cannot be given a mount. The plan and the user's files are text. The programs are packed
(files/programs, made from jobs/), because Ray writes the entrypoint into the log of the driver.

call                                                    returns
include "grpo.entrypoint" (list $ $beginning $digest)   the shell command
include "grpo.entrypoint.beginning" $                   its plan and the user's files
include "grpo.lockedSpec" (list $ $beginning)           the RayJob's spec without the programs
include "grpo.digestPlace" $                            the text in the plan that the digest of that spec replaces
include "grpo.word" (list "job.name" $text)             the text; fails where sh would read more than a word in it
include "grpo.file" (list "rewards.json" $text)         a part of the command that writes one file
include "grpo.unpack" (list $archive $version)          the last part of the command: it starts the programs
include "grpo.extract" $                                the Python program that extracts the programs
include "grpo.checkRuntimeEnv" $                        nothing; fails where Ray would not merge job.runtimeEnv
*/}}

{{/* grpo.entrypoint (list $ BEGINNING DIGEST): the version of the programs goes into the run's records. The comment is
     not in BEGINNING, because that is locked. */}}
{{- define "grpo.entrypoint" -}}
{{- if ne (len .) 3 }}{{ fail "grpo.entrypoint takes (list $ BEGINNING DIGEST)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- include "grpo.checkRuntimeEnv" $root -}}
{{- $file := printf "files/programs/%s.tar.bz2.b64" $root.Values.job.task -}}
{{- $archive := $root.Files.Get $file | required (printf "%s is missing from the chart" $file) -}}
{{- $version := printf "%s %s, sha256 %s" $root.Chart.Name $root.Chart.Version (sha256sum $archive) -}}
{{- $beginning := index . 1 | replace (include "grpo.digestPlace" $root) (index . 2) -}}
{{- $title := printf (print "# Attempt %d of run %s: the plan and the programs of the chart, packed. "
  "grpo render grpo-job --programs DIR unpacks them; their sha256 is in the last line.\n")
  (int64 $root.Values.job.attempt) (include "grpo.word" (list "job.name" $root.Values.job.name)) -}}
{{- $command := print $title $beginning (include "grpo.unpack" (list $archive $version)) -}}
{{- if gt (len $command) 98304 -}}
{{- fail (printf (print "the entrypoint has %d bytes, but Ray refuses 128 KiB or more (the limit here is 98304): "
  "shorten the files of job.rewards, job.prompts or job.config") (len $command)) -}}
{{- end -}}
{{- $command -}}
{{- end }}

{{/* grpo.entrypoint.beginning $: Ray gives it to sh, and the quoted here-documents keep sh from reading anything in
     them. */}}
{{- define "grpo.entrypoint.beginning" -}}
set -eu
export GRPO_OWNER_LAPSE_SECONDS="${GRPO_OWNER_LAPSE_SECONDS:-{{ int64 .Values.job.lapseSeconds }}}"
exec 3<<'GRPO_PLAN'
{{ include "grpo.plan" . }}
GRPO_PLAN
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
{{- with include "grpo.sharedFiles" . | fromJson }}
mkdir "$programs/rewards" "$programs/prompts"
{{- range $name, $text := . }}
{{ include "grpo.file" (list $name $text) }}
{{- end }}
{{- end }}
{{ end }}

{{/* grpo.extract $: in Python, because an image may have no bzip2. Python 3.12 and 3.13 would warn of what 3.14
     does. */}}
{{- define "grpo.extract" -}}
import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode="r|bz2").extractall(sys.argv[1])
{{- end }}

{{/* grpo.unpack (list ARCHIVE VERSION): -I: no module of the folder in which the job starts stands in for one of
     Python's. */}}
{{- define "grpo.unpack" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.unpack takes (list ARCHIVE VERSION)" }}{{ end -}}
base64 -d <<'GRPO_PROGRAMS' | python3 -IWignore -c '{{ include "grpo.extract" . }}' "$programs"
{{ index . 0 | trimSuffix "\n" }}
GRPO_PROGRAMS
exec python3 -I "$programs" '{{ index . 1 }}'
{{- end }}

{{/* grpo.lockedSpec (list $ BEGINNING): what the run means. It has the wiring, whoever brings it: a run is the same
     run by the charts and by the post-renderer. Other programs are no other run. In the pods of an ephemeral cluster
     these are preStop and the init container check-node. */}}
{{- define "grpo.lockedSpec" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.lockedSpec takes (list $ BEGINNING)" }}{{ end -}}
{{- $command := print (index . 1) (include "grpo.unpack" (list "(the programs)" "(their version)")) -}}
{{- $spec := include "grpo.rayjob.spec" (list (index . 0) $command true) | fromYaml -}}
{{- with $spec.rayClusterSpec -}}
{{- range concat (list .headGroupSpec) .workerGroupSpecs -}}
{{- $pod := .template.spec -}}
{{- $_ := unset (first $pod.containers) "lifecycle" -}}
{{- range $pod.initContainers -}}
{{- if eq .name "check-node" }}{{ $_ = unset . "args" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end }}

{{/* grpo.digestPlace $: the lock has it too, so its digest is the one of the text that it shows. */}}
{{- define "grpo.digestPlace" }}(sha256 of the spec in the lock){{ end }}

{{/* grpo.word (list KEY TEXT): the schema refuses such a text first, unless Helm was told not to ask it. */}}
{{- define "grpo.word" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.word takes (list KEY TEXT)" }}{{ end -}}
{{- if not (regexMatch "^[A-Za-z0-9_][-A-Za-z0-9_]*$" (index . 1)) -}}
{{- fail (printf "%s is %q, which a shell would not read as one word. Write letters, digits, - and _" (index . 0)
  (index . 1)) -}}
{{- end -}}
{{- index . 1 -}}
{{- end }}

{{/* grpo.file (list NAME TEXT): the file lies beside the programs. */}}
{{- define "grpo.file" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.file takes (list NAME TEXT)" }}{{ end -}}
cat >"$programs/{{ index . 0 }}" <<'GRPO_FILE'
{{ index . 1 | trimSuffix "\n" }}
GRPO_FILE
{{- end }}

{{/* grpo.checkRuntimeEnv $: job.runtimeEnv goes to Ray as it is. */}}
{{- define "grpo.checkRuntimeEnv" -}}
{{- if (.Values.job.runtimeEnv | default dict).env_vars -}}
{{- fail (print "job.runtimeEnv.env_vars: the framework makes a runtime environment of its own, and Ray refuses to "
  "merge the two. Write the variables under job.env [job/runtime-env-twice]") -}}
{{- end -}}
{{- end }}
