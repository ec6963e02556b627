{{/* grpo.framework: a part that each framework has in a template file of its own: derived, workingDirectory, command, requiredFiles,
     environment, check.                                          include "grpo.framework" (list $ "derived") */}}
{{- define "grpo.framework" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.framework takes (list $ PART)" }}{{ end -}}
{{- $job := (index . 0).Values.job -}}
{{- $owner := ternary "nemo-rl" "verl" (hasPrefix "v" $job.version) -}}
{{- if ne $owner $job.framework -}}
{{- fail (printf "job.version %s is a version of %s, and job.framework is %s: set both, and images.training, to a set that belongs together" $job.version $owner $job.framework) -}}
{{- end -}}
{{- include (printf "grpo.%s.%s" $job.framework (index . 1)) (index . 0) -}}
{{- end }}

{{/* grpo.mlflowUri: address of the MLflow server.               include "grpo.mlflowUri" $ */}}
{{- define "grpo.mlflowUri" -}}
{{- .Values.tracking.mlflow.trackingUri | default "" | required "tracking.mlflow is enabled: give the address of its server under tracking.mlflow.trackingUri" -}}
{{- end }}

{{/* grpo.config: job.config, over it the overlay of the framework's version, over that the accelerator's, and what the chart derives, as
     JSON. A derived key that job.config sets differently is an error.
                                                                  include "grpo.config" $ | fromJson */}}
{{- define "grpo.config" -}}
{{- include "grpo.refuseBooleanKeys" (list "job.config" .Values.job.config) -}}
{{- include "grpo.refuseBooleanKeys" (list "job.configFor" .Values.job.configFor) -}}
{{- $config := include "grpo.decided" (list . (include "grpo.overlaid" . | fromJson)) | fromJson -}}
{{- $derived := include "grpo.framework" (list . "derived") | fromJson -}}
{{- include "grpo.refuseDifferent" (list "job.config" $config $derived) -}}
{{- include "common.merge" (list $config $derived) -}}
{{- end }}

{{/* grpo.overlaid: job.config with the overlays that count for this version and this accelerator, as JSON. The marker _override_ stays where
     the framework reads it: NeMo RL from v0.6.0, in a section of the first level.
                                                                  include "grpo.overlaid" $ | fromJson */}}
{{- define "grpo.overlaid" -}}
{{- $config := .Values.job.config -}}
{{- if hasKey $config "_override_" -}}
{{- fail "job.config._override_: one section at a time can be replaced, not the whole configuration. Write it inside the sections it is meant for" -}}
{{- end -}}
{{- range $section, $value := $config }}{{ include "grpo.refuseDeepMarkers" (list (printf "job.config.%s" $section) $value) }}{{ end -}}
{{- range $name := list .Values.job.version .Values.accelerator.name -}}
{{- $overlay := get $.Values.job.configFor $name | default dict -}}
{{- if hasKey $overlay "_override_" -}}
{{- fail (printf "job.configFor.%s._override_: one section at a time can be replaced, not the whole of job.config. Write it inside the sections it is meant for" $name) -}}
{{- end -}}
{{- $config = include "grpo.overlay" (list (printf "job.configFor.%s" $name) $config $overlay 1) | fromJson -}}
{{- end -}}
{{- $reads := and (eq .Values.job.framework "nemo-rl") (semverCompare ">=0.6.0" .Values.job.version) -}}
{{- range $section, $value := $config -}}
{{- if kindIs "map" $value }}{{ if not (and $reads (get $value "_override_")) }}{{ $_ := unset $value "_override_" }}{{ end }}{{ end -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{/* grpo.overlay: the second tree laid over the first, as JSON. Maps are merged at every depth, a map with _override_: true replaces the
     first's, and anything else replaces, null included. The marker is kept at depth 1, the sections, for the framework's own base file.
                                                                  include "grpo.overlay" (list "job.configFor.h200" $config $overlay 1) | fromJson */}}
{{- define "grpo.overlay" -}}
{{- $path := index . 0 -}}{{- $merged := deepCopy (index . 1) -}}{{- $depth := index . 3 -}}
{{- range $key, $value := index . 2 -}}
{{- if kindIs "map" $value -}}
{{- include "grpo.checkMarker" (list (printf "%s.%s" $path $key) $value) -}}
{{- $before := get $merged $key -}}
{{- $replaces := or (get $value "_override_" | default false) (not (kindIs "map" $before)) -}}
{{- $after := include "grpo.overlay" (list (printf "%s.%s" $path $key) (ternary dict $before $replaces) $value (add $depth 1)) | fromJson -}}
{{- if gt (int $depth) 1 }}{{ $_ := unset $after "_override_" }}{{ end -}}
{{- $_ := set $merged $key $after -}}
{{- else -}}
{{- if kindIs "slice" $value }}{{ include "grpo.refuseListedMarkers" (list (printf "%s.%s" $path $key) $value) }}{{ end -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end }}

{{/* grpo.checkMarker: fail where _override_ is neither true nor false.
                                                                  include "grpo.checkMarker" (list "job.config.data" $section) */}}
{{- define "grpo.checkMarker" -}}
{{- $path := index . 0 -}}{{- $section := index . 1 -}}
{{- if and (hasKey $section "_override_") (not (kindIs "bool" (get $section "_override_"))) -}}
{{- fail (printf "%s._override_ is %s, and true (replace the section) or false was expected" $path (get $section "_override_" | toJson)) -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseDeepMarkers: fail where _override_ stands below a section of job.config: NeMo RL would take it for a key.
                                                                  include "grpo.refuseDeepMarkers" (list "job.config.data" $section) */}}
{{- define "grpo.refuseDeepMarkers" -}}
{{- $path := index . 0 -}}{{- $section := index . 1 -}}
{{- if kindIs "map" $section -}}
{{- include "grpo.checkMarker" . -}}
{{- range $key, $value := $section -}}
{{- if kindIs "map" $value -}}
{{- if hasKey $value "_override_" -}}
{{- fail (printf "%s.%s._override_: NeMo RL replaces whole sections of the first level only. Move it to %s, with all that the section needs" $path $key (slice (splitList "." $path) 0 3 | join ".")) -}}
{{- end -}}
{{- end -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}{{ include "grpo.refuseDeepMarkers" (list (printf "%s.%s" $path $key) $value) }}{{ end -}}
{{- end -}}
{{- else }}{{ include "grpo.refuseListedMarkers" . }}
{{- end -}}
{{- end }}

{{/* grpo.refuseListedMarkers: fail where _override_ stands inside a list, which is replaced as a whole without it.
                                                                  include "grpo.refuseListedMarkers" (list "job.config.data.train" $value) */}}
{{- define "grpo.refuseListedMarkers" -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}
{{- if kindIs "slice" $value -}}
{{- range $i, $item := $value }}{{ include "grpo.refuseListedMarkers" (list (printf "%s[%d]" $path $i) $item) }}{{ end -}}
{{- else if kindIs "map" $value -}}
{{- if hasKey $value "_override_" -}}
{{- fail (printf "%s._override_: a list is replaced as a whole, and what is in it has no use for the marker. Remove it" $path) -}}
{{- end -}}
{{- range $key, $inner := $value }}{{ include "grpo.refuseListedMarkers" (list (printf "%s.%s" $path $key) $inner) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseDifferent: fail where the user's tree sets a derived leaf to another value.
                                                                  include "grpo.refuseDifferent" (list "job.config" $config $derived) */}}
{{- define "grpo.refuseDifferent" -}}
{{- $path := index . 0 -}}{{- $config := index . 1 -}}{{- $derived := index . 2 -}}
{{- range $key, $value := $derived -}}
{{- if hasKey $config $key -}}
{{- $theirs := get $config $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $theirs) -}}
{{- include "grpo.refuseDifferent" (list (printf "%s.%s" $path $key) $theirs $value) -}}
{{- else if ne (toJson $value) (toJson $theirs) -}}
{{- fail (printf "%s.%s is %s, and the chart derives %s from the other values: remove the key, or write that" $path $key (toJson $theirs) (toJson $value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseBooleanKeys: Helm reads the unquoted keys n, no, off, y, yes, on as false and true; the framework would never see them.
                                                                  include "grpo.refuseBooleanKeys" (list "job.config" .Values.job.config) */}}
{{- define "grpo.refuseBooleanKeys" -}}
{{- $path := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if has $key (list "true" "false") -}}
{{- fail (printf "%s.%s: Helm reads an unquoted %s as this key. Write it in quotes, for instance \"n\": 8 (a key that is really called %s cannot be given)" $path $key (ternary "y, yes or on" "n, no or off" (eq $key "true")) $key) -}}
{{- end -}}
{{- include "grpo.refuseBooleanKeysIn" (list (printf "%s.%s" $path $key) $value) -}}
{{- end -}}
{{- end }}

{{- define "grpo.refuseBooleanKeysIn" -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}
{{- if kindIs "map" $value }}{{ include "grpo.refuseBooleanKeys" (list $path $value) }}
{{- else if kindIs "slice" $value -}}
{{- range $i, $item := $value }}{{ include "grpo.refuseBooleanKeysIn" (list (printf "%s[%d]" $path $i) $item) }}{{ end -}}
{{- end -}}
{{- end }}
