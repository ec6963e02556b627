{{/* Rewards and prompts of the user's own: files that the launcher puts on the run's volume, where every worker reads them. */}}

{{/* grpo.codeDirectory: where they lie.                           include "grpo.codeDirectory" $ */}}
{{- define "grpo.codeDirectory" }}{{ include "grpo.attemptDirectory" . }}/code{{ end }}

{{/* grpo.rewards: what rewards.py reads, as JSON: weight, arguments, and a built-in reward or the name of a file.
                                                                  include "grpo.rewards" $ | fromJson */}}
{{- define "grpo.rewards" -}}
{{- $rewards := dict -}}
{{- range $name, $given := include "common.entries" .Values.job.rewards | fromJson -}}
{{- $given = include "common.entries" $given | fromJson -}}
{{- if eq (hasKey $given "builtin") (hasKey $given "file") }}{{ fail (printf "job.rewards.%s: give exactly one of builtin and file" $name) }}{{ end -}}
{{- $entry := dict "weight" ($given.weight | default 1) "kwargs" ($given.kwargs | default dict) -}}
{{- if hasKey $given "builtin" }}{{ $_ := set $entry "builtin" $given.builtin }}{{ else }}{{ $_ := set $entry "file" (printf "%s.py" $name) }}{{ end -}}
{{- $_ := set $rewards $name $entry -}}
{{- end -}}
{{- if and $rewards (eq .Values.job.version "v0.4.0") }}{{ fail "job.rewards needs NeMo RL v0.5.0 or newer: v0.4.0 has no registry in which a reward could be put" }}{{ end -}}
{{- toJson $rewards -}}
{{- end }}

{{/* grpo.sharedFiles: the files, as JSON map from name to text; nothing for a task that does not train.
                                                                  include "grpo.sharedFiles" $ | fromJson */}}
{{- define "grpo.sharedFiles" -}}
{{- $files := dict -}}
{{- if include "grpo.trains" . -}}
{{- include "grpo.checkPrompts" . -}}
{{- $rewards := include "grpo.rewards" . | fromJson -}}
{{- if $rewards -}}
{{- $_ := set $files "rewards.json" (toPrettyJson $rewards | include "grpo.printable") -}}
{{- range $name := concat (list "rewards.py" "reward_answers.py" "reward_builtins.py") (include "grpo.framework" (list . "rewardPrograms") | fromJsonArray) -}}
{{- $_ := set $files $name ($.Files.Get (printf "files/jobs/%s" $name)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $reward := $rewards }}{{ if hasKey $reward "file" }}{{ $_ := set $files (printf "rewards/%s.py" $name) (get $.Values.job.rewards $name).file }}{{ end }}{{ end -}}
{{- range $name, $text := include "common.entries" .Values.job.prompts | fromJson }}{{ $_ := set $files (printf "prompts/%s.txt" $name) $text }}{{ end -}}
{{- range $name, $text := $files -}}
{{- if regexMatch "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x{9f}\\x{2028}\\x{2029}\\x{feff}\\x{fffe}\\x{ffff}]" $text }}{{ fail (printf "%s holds a control character, which a Kubernetes object in YAML cannot carry: write it as an escape, or with Unix line ends" $name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end }}

{{/* grpo.decided: a configuration without the keys that job.rewards decides, as JSON: a recipe may name the framework's own reward.
                                                                  include "grpo.decided" (list $ $config) | fromJson */}}
{{- define "grpo.decided" -}}
{{- $root := index . 0 -}}{{- $config := deepCopy (index . 1) -}}
{{- if include "grpo.rewards" $root | fromJson -}}
{{- range $path := include "grpo.framework" (list $root "rewardKeys") | fromJsonArray -}}
{{- $parent := $config -}}
{{- range initial $path }}{{ $parent = ternary (get ($parent | default dict) .) dict (kindIs "map" ($parent | default dict)) }}{{ end -}}
{{- range $one := ternary $parent (list $parent) (kindIs "slice" $parent) -}}
{{- if kindIs "map" $one }}{{ $_ := unset $one (last $path) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{/* grpo.checkPrompts: fail where the configuration names a prompt that job.prompts does not have, or nothing would read one.
                                                                  include "grpo.checkPrompts" $ */}}
{{- define "grpo.checkPrompts" -}}
{{- $prompts := include "common.entries" .Values.job.prompts | fromJson -}}
{{- if and $prompts (eq .Values.job.framework "verl") }}{{ fail "job.prompts: verl reads no prompt file, its prompts are part of the data: set job.prepareData.NAME.instruction" }}{{ end -}}
{{- range $found := regexFindAll "\\$\\{oc\\.env:GRPO_PROMPTS\\}/[^\"]*" (include "grpo.overlaid" .) -1 -}}
{{- $name := $found | trimPrefix "${oc.env:GRPO_PROMPTS}/" | trimSuffix ".txt" -}}
{{- if not (hasKey $prompts $name) }}{{ fail (printf "job.config names the prompt %s.txt, and job.prompts has %s: write it there" $name (keys $prompts | sortAlpha | join ", " | default "none")) }}{{ end -}}
{{- end -}}
{{- end }}
