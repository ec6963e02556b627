{{/* grpo.check: what the job cannot start with, whatever its framework, and then what its framework says.
                                                                  include "grpo.check" $ */}}
{{- define "grpo.check" -}}
{{- if and (eq .Values.job.cluster.mode "ephemeral") (eq .Values.job.name (include "common.name" (list . "cluster"))) -}}
{{- fail (printf "job.name is %s, and so is the stack's RayCluster: their pods would be taken for each other's. Choose another name" .Values.job.name) -}}
{{- end -}}
{{- include "grpo.framework" (list . "check") -}}
{{- end }}

{{/* grpo.environment: variables of the driver, as JSON map from name to text: ours, what the framework reads from variables, and job.env.
                                                                  include "grpo.environment" $ | fromJson */}}
{{- define "grpo.environment" -}}
{{- $environment := include "grpo.framework" (list . "environment") | fromJson -}}
{{- $_ := set $environment "GRPO_DATASETS" (printf "%s/datasets" (include "common.mountPath" (list . "job.volume" .Values.job.volume))) -}}
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
                                                                  include "grpo.plan" (list $ "DIGEST") */}}
{{- define "grpo.plan" -}}
{{- $root := index . 0 -}}
{{- $job := $root.Values.job -}}
{{- include "grpo.check" $root -}}
{{- dict
  "run" $job.name
  "attempt" (int64 $job.attempt)
  "digest" (index . 1)
  "runDirectory" (include "grpo.runDirectory" $root)
  "facts" (include "common.facts" $root | fromJson)
  "environment" (include "grpo.environment" $root | fromJson)
  "workingDirectory" (include "grpo.framework" (list $root "workingDirectory"))
  "command" (include "grpo.framework" (list $root "command") | fromJsonArray)
  "retries" (ternary (int64 $job.retries) 0 (eq $job.cluster.mode "existing"))
  "requiredFiles" (include "grpo.framework" (list $root "requiredFiles") | fromJsonArray)
  "config" (include "grpo.config" $root | fromJson) | toPrettyJson | include "grpo.printable" -}}
{{- end }}

{{/* grpo.printable: control characters that YAML does not allow, as JSON escapes.
                                                                  include "grpo.printable" $text */}}
{{- define "grpo.printable" -}}
{{- $text := . -}}
{{- range $i := until 33 }}{{ $text = $text | replace (printf "%c" (add 127 $i)) (printf "\\u%04x" (add 127 $i)) }}{{ end -}}
{{- $text | replace (printf "%c" 65279) "\\ufeff" -}}
{{- end }}

{{/* grpo.entrypoint: shell command of the Ray job. Ray gives it to sh; the quoted here-documents keep sh from reading anything in
     them, and nothing needs to be mounted, because a cluster that runs cannot be given a mount. -I: no module of the folder in which
     the job starts stands in for one of Python's.
                                                                  include "grpo.entrypoint" (list $ "DIGEST") */}}
{{- define "grpo.entrypoint" -}}
{{- $root := index . 0 -}}
exec python3 -I - 3<<'GRPO_PLAN' <<'GRPO_PROGRAM'
{{ include "grpo.plan" . }}
GRPO_PLAN
{{ $root.Files.Get "files/jobs/launch.py" | required "files/jobs/launch.py is missing from the chart" | trim }}
GRPO_PROGRAM
{{- end }}

{{/* grpo.specText: spec of the RayJob, as YAML.                  include "grpo.specText" (list $ "DIGEST") */}}
{{- define "grpo.specText" -}}
{{- $root := index . 0 -}}
{{- $entrypoint := include "grpo.entrypoint" . -}}
{{- if gt (len $entrypoint) 98304 -}}
{{- fail (printf "the entrypoint has %d bytes, and Ray starts none of 128 KiB or more (ours: 98304): shorten job.config" (len $entrypoint)) -}}
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
  {{- include "common.raycluster.spec" $root | nindent 2 }}
{{- end }}
{{- end }}

{{/* grpo.digest: digest of the spec, computed with the digest's own place left empty.
                                                                  include "grpo.digest" $ */}}
{{- define "grpo.digest" -}}
{{- include "grpo.specText" (list . "") | fromYaml | toJson | sha256sum -}}
{{- end }}

{{/* grpo.runName: name of the RayJob.                            include "grpo.runName" $ */}}
{{- define "grpo.runName" -}}
{{- printf "%s-%d" .Values.job.name (int64 .Values.job.attempt) -}}
{{- end }}
