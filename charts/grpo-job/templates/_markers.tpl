{{/*
The marker _override_ of job.config: a section with _override_: true replaces the section of the framework's base file.

call                                                                    returns
include "grpo.checkMarker" (list "job.config.data" $section)            nothing; fails unless it is true or false
include "grpo.refuseDeepMarkers" (list "job.config.data" $section)      nothing; fails below a section
include "grpo.refuseListedMarkers" (list "job.config.data.train" $value)    nothing; fails inside a list
*/}}

{{/* grpo.checkMarker (list PATH SECTION): SECTION is a map. */}}
{{- define "grpo.checkMarker" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.checkMarker takes (list PATH SECTION)" }}{{ end -}}
{{- $path := index . 0 -}}{{- $section := index . 1 -}}
{{- if and (hasKey $section "_override_") (not (kindIs "bool" (get $section "_override_"))) -}}
{{- fail (printf "%s._override_ is %s, expected true (replace the section) or false [job/override-misplaced]"
  $path (get $section "_override_" | toJson)) -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseDeepMarkers (list PATH SECTION): NeMo RL would take a marker below a section for a key. */}}
{{- define "grpo.refuseDeepMarkers" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.refuseDeepMarkers takes (list PATH SECTION)" }}{{ end -}}
{{- $path := index . 0 -}}{{- $section := index . 1 -}}
{{- if kindIs "map" $section -}}
{{- include "grpo.checkMarker" . -}}
{{- range $key, $value := $section -}}
{{- if kindIs "map" $value -}}
{{- if hasKey $value "_override_" -}}
{{- fail (printf (print "%s.%s._override_: NeMo RL replaces only whole top-level sections. Move it to %s, and "
  "write there all that the section needs [job/override-misplaced]")
  $path $key (slice (splitList "." $path) 0 3 | join ".")) -}}
{{- end -}}
{{- end -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) -}}
{{- include "grpo.refuseDeepMarkers" (list (printf "%s.%s" $path $key) $value) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- include "grpo.refuseListedMarkers" . -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseListedMarkers (list PATH VALUE): a list is replaced as a whole without the marker. Passes for a VALUE
     that is neither a list nor, inside one, a map. */}}
{{- define "grpo.refuseListedMarkers" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.refuseListedMarkers takes (list PATH VALUE)" }}{{ end -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}
{{- if kindIs "slice" $value -}}
{{- range $i, $item := $value -}}
{{- include "grpo.refuseListedMarkers" (list (printf "%s[%d]" $path $i) $item) -}}
{{- end -}}
{{- else if kindIs "map" $value -}}
{{- if hasKey $value "_override_" -}}
{{- fail (printf (print "%s._override_: a list is replaced as a whole, and the marker has no effect inside it. "
  "Remove it [job/override-misplaced]") $path) -}}
{{- end -}}
{{- range $key, $inner := $value -}}
{{- include "grpo.refuseListedMarkers" (list (printf "%s.%s" $path $key) $inner) -}}
{{- end -}}
{{- end -}}
{{- end }}
