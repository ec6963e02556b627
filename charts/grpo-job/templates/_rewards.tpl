{{/*
Rewards and prompts of the user's own (job.rewards, job.prompts): files that the launcher puts on the run's volume,
where every worker reads them.

call                                                            returns
include "grpo.codeDirectory" $                                  the folder of the files
include "grpo.rewards" $ | fromJson                             what rewards.py reads, by the reward's name
include "grpo.sharedFiles" $ | fromJson                         the files, from name to text
include "grpo.withoutRewardKeys" (list $ $config) | fromJson    a configuration without the framework's own reward
include "grpo.checkPrompts" $                                   nothing; fails where a prompt is missing or not read
include "grpo.checkText" (list "job.prompts.cot" $text)         nothing; fails where the text cannot travel
*/}}

{{/* grpo.codeDirectory $: each attempt has its own. */}}
{{- define "grpo.codeDirectory" }}{{ include "grpo.attemptDirectory" . }}/code{{ end }}

{{/* grpo.rewards $: weight, arguments, and a built-in reward or the name of a file. */}}
{{- define "grpo.rewards" -}}
{{- $rewards := dict -}}
{{- range $name, $value := include "common.entries" .Values.job.rewards | fromJson -}}
{{- $given := include "common.entries" $value | fromJson -}}
{{- if eq (hasKey $given "builtin") (hasKey $given "file") -}}
{{- fail (printf (print "job.rewards.%s has both builtin and file, or neither: give exactly one of builtin and file "
  "[job/reward-source]") $name) -}}
{{- end -}}
{{- $entry := dict "weight" ($given.weight | default 1) "kwargs" ($given.kwargs | default dict) -}}
{{- if hasKey $given "builtin" -}}
{{- $_ := set $entry "builtin" $given.builtin -}}
{{- else -}}
{{- $_ := set $entry "file" (printf "%s.py" $name) -}}
{{- end -}}
{{- $_ := set $rewards $name $entry -}}
{{- end -}}
{{- if and $rewards (eq .Values.job.version "v0.4.0") -}}
{{- fail (print "job.rewards needs NeMo RL v0.5.0 or newer, because v0.4.0 has no registry for rewards: remove it, or "
  "choose a newer version [job/reward-source]") -}}
{{- end -}}
{{- toJson $rewards -}}
{{- end }}

{{/* grpo.sharedFiles $: empty for a task that does not train. */}}
{{- define "grpo.sharedFiles" -}}
{{- $files := dict -}}
{{- if include "grpo.trains" . -}}
{{- include "grpo.checkPrompts" . -}}
{{- $rewards := include "grpo.rewards" . | fromJson -}}
{{- if $rewards -}}
{{- $table := toPrettyJson $rewards | include "grpo.printable" -}}
{{- include "grpo.checkText" (list "job.rewards" $table) -}}
{{- $_ := set $files "rewards.json" $table -}}
{{- end -}}
{{- range $name, $reward := $rewards -}}
{{- if hasKey $reward "file" -}}
{{- $text := (get $.Values.job.rewards $name).file -}}
{{- include "grpo.checkText" (list (printf "job.rewards.%s.file" $name) $text) -}}
{{- $_ := set $files (printf "rewards/%s.py" (include "grpo.word" (list "a name under job.rewards" $name))) $text -}}
{{- end -}}
{{- end -}}
{{- range $name, $text := include "common.entries" .Values.job.prompts | fromJson -}}
{{- include "grpo.checkText" (list (printf "job.prompts.%s" $name) $text) -}}
{{- $_ := set $files (printf "prompts/%s.txt" (include "grpo.word" (list "a name under job.prompts" $name))) $text -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end }}

{{/* grpo.checkText (list KEY TEXT): a Kubernetes object in YAML cannot carry such characters, and the line ends the
     file in the entrypoint. */}}
{{- define "grpo.checkText" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.checkText takes (list KEY TEXT)" }}{{ end -}}
{{- $control := "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x{9f}\\x{2028}\\x{2029}\\x{feff}\\x{fffe}\\x{ffff}]" -}}
{{- if regexMatch $control (index . 1) -}}
{{- fail (printf (print "%s contains a control character, which a Kubernetes object in YAML cannot contain: write it "
  "as an escape sequence, or use Unix line endings") (index . 0)) -}}
{{- end -}}
{{- if has "GRPO_FILE" (splitList "\n" (index . 1)) -}}
{{- fail (printf "%s has a line GRPO_FILE, which would end the file in the entrypoint. Change it" (index . 0)) -}}
{{- end -}}
{{- end }}

{{/* grpo.withoutRewardKeys (list $ CONFIG): a recipe may name the framework's own reward, and job.rewards decides.
     */}}
{{- define "grpo.withoutRewardKeys" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.withoutRewardKeys takes (list $ CONFIG)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $config := deepCopy (index . 1) -}}
{{- if include "grpo.rewards" $root | fromJson -}}
{{- range $path := include "grpo.framework" (list $root "rewardKeys") | fromJsonArray -}}
{{- $parent := $config -}}
{{- range initial $path -}}
{{- $parent = ternary (get ($parent | default dict) .) dict (kindIs "map" ($parent | default dict)) -}}
{{- end -}}
{{- range $one := ternary $parent (list $parent) (kindIs "slice" $parent) -}}
{{- if kindIs "map" $one }}{{ $_ := unset $one (last $path) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{/* grpo.checkPrompts $: job.config names a prompt by ${oc.env:GRPO_PROMPTS}/NAME.txt. */}}
{{- define "grpo.checkPrompts" -}}
{{- $prompts := include "common.entries" .Values.job.prompts | fromJson -}}
{{- if and $prompts (eq .Values.job.framework "verl") -}}
{{- fail (print "job.prompts: verl reads no prompt files, because its prompts are part of the data: set "
  "job.prepareData.NAME.instruction") -}}
{{- end -}}
{{- range $found := regexFindAll "\\$\\{oc\\.env:GRPO_PROMPTS\\}/[^\"]*" (include "grpo.mergedConfig" .) -1 -}}
{{- $name := $found | trimPrefix "${oc.env:GRPO_PROMPTS}/" | trimSuffix ".txt" -}}
{{- if not (hasKey $prompts $name) -}}
{{- fail (printf (print "job.prompts has %s, but job.config names the prompt %s.txt: add job.prompts.%s, "
  "or correct the name [job/prompt-absent]")
  (keys $prompts | sortAlpha | join ", " | default "none") $name $name) -}}
{{- end -}}
{{- end -}}
{{- end }}
