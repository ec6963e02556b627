{{/* common.entries: a map without the entries that a later file deleted with null, as JSON.
                                                                  include "common.entries" .Values.storage | fromJson */}}
{{- define "common.entries" -}}
{{- $kept := dict -}}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $key $value }}{{ end }}{{ end -}}
{{- toJson $kept -}}
{{- end }}

{{/* common.merge: the second map laid over the first, as JSON. Maps are merged at every depth, anything else replaces, null included.
                                                                  include "common.merge" (list $base $over) | fromJson */}}
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

{{/* common.quantity: a memory quantity as Kubernetes itself writes it (1024Gi → 1Ti). The operator rewrites others, and an upgrade
     by server-side apply then conflicts with it.                 include "common.quantity" "1024Gi" */}}
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

{{/* common.check: what no schema can say in a sentence that helps. Called first by every template, because Helm chooses which one is
     rendered first; that one leaves a mark for the others, all of which see the same .Release.
                                                                  include "common.check" $ */}}
{{- define "common.check" -}}
{{- if not (hasKey .Release "grpoChecked") }}{{ include "common.checkValues" . }}{{ $_ := set .Release "grpoChecked" true }}{{ end -}}
{{- end }}

{{- define "common.checkValues" -}}
{{- if not .Values.accelerator -}}
{{- fail "no accelerator profile: add -f values/accelerators/b200.yaml (or h200.yaml) before your other -f files" -}}
{{- end -}}
{{- include "common.checkPlatform" . -}}
{{- if hasKey (.Values.stack.labels | default dict) "kueue.x-k8s.io/queue-name" -}}
{{- fail "stack.labels stands on every object, on a RayJob that runs on an existing cluster too, which Kueue refuses: remove kueue.x-k8s.io/queue-name, and set ray.kueue.queue" -}}
{{- end -}}
{{- if regexMatch (include "common.tokenPattern" .) (toJson .Values) -}}
{{- range $key, $value := .Values }}{{ include "common.refuseTokens" (list $ $key $value) }}{{ end -}}
{{- fail "the values hold what looks like a token. Put it in a Secret and name the Secret (huggingface.secret)" -}}
{{- end -}}
{{- end }}

{{/* common.refuseTokens: fail with the path of a string that looks like a secret, never with the string.
                                                                  include "common.refuseTokens" (list $ "job" .Values.job) */}}
{{- define "common.refuseTokens" -}}
{{- $root := index . 0 -}}{{- $path := index . 1 -}}{{- $value := index . 2 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value -}}
{{- if regexMatch (include "common.tokenPattern" $root) $key -}}
{{- fail (printf "a key below %s looks like a token. Put it in a Secret and name the Secret (huggingface.secret)" $path) -}}
{{- end -}}
{{- include "common.refuseTokens" (list $root (printf "%s.%s" $path $key) $inner) -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $i, $inner := $value }}{{ include "common.refuseTokens" (list $root (printf "%s[%d]" $path $i) $inner) }}{{ end -}}
{{- else if kindIs "string" $value -}}
{{- if regexMatch (include "common.tokenPattern" $root) (printf "%s: %s" $path $value) -}}
{{- fail (printf "%s holds what looks like a token. Values are stored in the release and shown by helm get values: put it in a Secret and name the Secret (huggingface.secret)" $path) -}}
{{- end -}}
{{- end -}}
{{- end }}
