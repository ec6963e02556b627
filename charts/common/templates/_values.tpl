{{/*
Maps, quantities, and the checks of all values.

call                                                returns
include "common.entries" $map | fromJson            a map without its null entries
include "common.merge" (list $base $over) | fromJson    the second map laid over the first
include "common.quantity" "1024Gi"                  a memory quantity as Kubernetes writes it
include "common.mebibytes" "10Gi" | int64           a memory quantity as a number of MiB
include "common.text" 200000.0                      a text, number or boolean as YAML writes it
include "common.check" $                            nothing; fails where the values cannot work
include "common.checkOverlayNames" $                nothing; fails for a name under job.configFor that no profile has
include "common.refuseTokens" (list $ "job" .Values.job)    nothing; fails where a text looks like a secret
*/}}

{{/* common.entries MAP: a later values file deletes an entry of a map with null, and Helm keeps that null. */}}
{{- define "common.entries" -}}
{{- $kept := dict -}}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $key $value }}{{ end }}{{ end -}}
{{- toJson $kept -}}
{{- end }}

{{/* common.merge (list BASE OVER): maps merge at every depth; anything else replaces, null included. */}}
{{- define "common.merge" -}}
{{- if ne (len .) 2 }}{{ fail "common.merge takes (list BASE OVER)" }}{{ end -}}
{{- $merged := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- $before := get $merged $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $before) -}}
{{- $_ := set $merged $key (include "common.merge" (list $before $value) | fromJson) -}}
{{- else -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end }}

{{/* common.quantity QUANTITY: 1024Gi becomes 1Ti. The operator rewrites other forms, and the next upgrade by
     server-side apply then conflicts with it. */}}
{{- define "common.quantity" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[A-Z]i$" . -}}
{{- $larger := dict "Mi" "Gi" "Gi" "Ti" -}}
{{- if and (hasKey $larger $unit) (eq (mod $number 1024) 0) -}}
{{- include "common.quantity" (printf "%d%s" (div $number 1024) (get $larger $unit)) -}}
{{- else -}}
{{- printf "%d%s" $number $unit -}}
{{- end -}}
{{- end }}

{{/* common.mebibytes QUANTITY: 10Gi is 10240. */}}
{{- define "common.mebibytes" -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (regexFind "[A-Z]i$" .)) -}}
{{- end }}

{{/* common.text VALUE: 1000000 and not 1e+06, which is how Helm holds a number of a values file. */}}
{{- define "common.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{/* common.check $: checks what a schema cannot explain in a helpful sentence. Every template calls it first, because
     Helm renders the files of a folder in any order. All of them get the same $: what takes long is done once in a
     render, and the result is kept there under the helper's name. */}}
{{- define "common.check" -}}
{{- if not (hasKey . "common.check") -}}
{{- if not .Values.accelerator -}}
{{- fail (print "no accelerator profile: add -f values/accelerators/NAME.yaml of your machines before "
  "your other -f files [values/no-accelerator]") -}}
{{- end -}}
{{- include "common.checkPlatform" . -}}
{{- include "common.checkOverlayNames" . -}}
{{- if hasKey (.Values.stack.labels | default dict) "kueue.x-k8s.io/queue-name" -}}
{{- fail (print "stack.labels.kueue.x-k8s.io/queue-name is set on every object, including a RayJob on an existing "
  "cluster, which Kueue refuses: remove it, and set ray.kueue.queue") -}}
{{- end -}}
{{- if regexMatch (include "common.tokenPattern" .) (toJson .Values) -}}
{{- range $key, $value := .Values }}{{ include "common.refuseTokens" (list $ $key $value) }}{{ end -}}
{{- fail (print "the values contain what looks like a token. Put it in a Secret and name the Secret "
  "(huggingface.secret) [values/token]") -}}
{{- end -}}
{{- $_ := set . "common.check" true -}}
{{- end -}}
{{- end }}

{{/* common.checkOverlayNames $: an overlay under a misspelt name would have no effect. The names are those of the
     machines of the profiles that the chart carries; a chart without its values/ folder cannot know them. Versions have
     a dot. */}}
{{- define "common.checkOverlayNames" -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "values/accelerators/*.yaml" -}}
{{- $names = append $names ($.Files.Get $path | fromYaml).accelerator.name -}}
{{- end -}}
{{- $known := append $names .Values.accelerator.name -}}
{{- range $name, $_ := (.Values.job | default dict).configFor | default dict -}}
{{- if and $names (not (contains "." $name)) (not (has $name $known)) -}}
{{- fail (printf "job.configFor.%s: no accelerator profile has this name. The machines are: %s [job/unknown-profile]"
  $name ($known | uniq | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.refuseTokens (list $ PATH VALUE): fails with the path of a text that looks like a secret, and never prints
     the text itself. */}}
{{- define "common.refuseTokens" -}}
{{- if ne (len .) 3 }}{{ fail "common.refuseTokens takes (list $ PATH VALUE)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $path := index . 1 -}}{{- $value := index . 2 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value -}}
{{- if regexMatch (include "common.tokenPattern" $root) $key -}}
{{- fail (printf (print "a key below %s looks like a token. Put it in a Secret and name the Secret "
  "(huggingface.secret) [values/token]") $path) -}}
{{- end -}}
{{- include "common.refuseTokens" (list $root (printf "%s.%s" $path $key) $inner) -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $i, $inner := $value -}}
{{- include "common.refuseTokens" (list $root (printf "%s[%d]" $path $i) $inner) -}}
{{- end -}}
{{- else if kindIs "string" $value -}}
{{- if regexMatch (include "common.tokenPattern" $root) (printf "%s: %s" $path $value) -}}
{{- fail (printf (print "%s contains what looks like a token. Helm stores values in the release, and helm get values "
  "prints them: put it in a Secret and name the Secret (huggingface.secret) [values/token]") $path) -}}
{{- end -}}
{{- end -}}
{{- end }}
