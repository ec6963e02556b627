{{/*
The framework's configuration: job.config, its overlays (job.configFor), and what the chart derives.

call                                                                    returns
include "grpo.config" $ | fromJson                                      the whole configuration
include "grpo.mergedConfig" $ | fromJson                                job.config with its overlays
include "grpo.overlay" (list "job.configFor.h200" $config $overlay 1)   the second tree laid over the first, as JSON
include "grpo.refuseDifferent" (list "job.config" $config $derived)     nothing; fails for a changed derived key
include "grpo.refuseBooleanKeys" (list "job.config" $config)            nothing; fails for an unquoted key such as n
*/}}

{{/* grpo.config $: overlays in this order: the framework's version, the accelerator. A derived key that job.config
     sets to another value is an error. */}}
{{- define "grpo.config" -}}
{{- if not (hasKey . "grpo.config") -}}
{{- include "grpo.refuseBooleanKeys" (list "job.config" .Values.job.config) -}}
{{- include "grpo.refuseBooleanKeys" (list "job.configFor" .Values.job.configFor) -}}
{{- $config := include "grpo.withoutRewardKeys" (list . (include "grpo.mergedConfig" . | fromJson)) | fromJson -}}
{{- $derived := include "grpo.framework" (list . "derived") | fromJson -}}
{{- include "grpo.refuseDifferent" (list "job.config" $config $derived) -}}
{{- $_ := set . "grpo.config" (include "common.merge" (list $config $derived)) -}}
{{- end -}}
{{- get . "grpo.config" -}}
{{- end }}

{{/* grpo.mergedConfig $: the marker _override_ stays where the framework reads it: NeMo RL from v0.6.0, in a section
     of the first level. */}}
{{- define "grpo.mergedConfig" -}}
{{- if not (hasKey . "grpo.mergedConfig") -}}
{{- $config := .Values.job.config -}}
{{- if hasKey $config "_override_" -}}
{{- fail (print "job.config._override_: only sections can be replaced, not the whole configuration. Write the "
  "marker inside each section that you want to replace [job/override-misplaced]") -}}
{{- end -}}
{{- range $section, $value := $config -}}
{{- include "grpo.refuseDeepMarkers" (list (printf "job.config.%s" $section) $value) -}}
{{- end -}}
{{- range $name := list .Values.job.version .Values.accelerator.name -}}
{{- $overlay := get $.Values.job.configFor $name | default dict -}}
{{- if hasKey $overlay "_override_" -}}
{{- fail (printf (print "job.configFor.%s._override_: only sections can be replaced, not the whole of job.config. "
  "Write the marker inside each section that you want to replace [job/override-misplaced]") $name) -}}
{{- end -}}
{{- $config = include "grpo.overlay" (list (printf "job.configFor.%s" $name) $config $overlay 1) | fromJson -}}
{{- end -}}
{{- $reads := and (eq .Values.job.framework "nemo-rl") (semverCompare ">=0.6.0" .Values.job.version) -}}
{{- range $section, $value := $config -}}
{{- if kindIs "map" $value -}}
{{- if not (and $reads (get $value "_override_")) }}{{ $_ := unset $value "_override_" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "grpo.mergedConfig" (toJson $config) -}}
{{- end -}}
{{- get . "grpo.mergedConfig" -}}
{{- end }}

{{/* grpo.overlay (list PATH BASE OVER DEPTH): maps merge at every depth; a map with _override_: true replaces BASE's,
     and anything else replaces, null included. The marker stays at depth 1, the sections, for the framework's own
     base file. */}}
{{- define "grpo.overlay" -}}
{{- if ne (len .) 4 }}{{ fail "grpo.overlay takes (list PATH BASE OVER DEPTH)" }}{{ end -}}
{{- $depth := index . 3 -}}
{{- $merged := deepCopy (index . 1) -}}
{{- range $key, $value := index . 2 -}}
{{- $path := printf "%s.%s" (index $ 0) $key -}}
{{- if kindIs "map" $value -}}
{{- include "grpo.checkMarker" (list $path $value) -}}
{{- $before := get $merged $key -}}
{{- $replaces := or (get $value "_override_" | default false) (not (kindIs "map" $before)) -}}
{{- $base := ternary dict $before $replaces -}}
{{- $after := include "grpo.overlay" (list $path $base $value (add $depth 1)) | fromJson -}}
{{- if gt (int $depth) 1 }}{{ $_ := unset $after "_override_" }}{{ end -}}
{{- $_ := set $merged $key $after -}}
{{- else -}}
{{- include "grpo.refuseListedMarkers" (list $path $value) -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end }}

{{/* grpo.refuseDifferent (list PATH CONFIG DERIVED): equal values may stand there. */}}
{{- define "grpo.refuseDifferent" -}}
{{- if ne (len .) 3 }}{{ fail "grpo.refuseDifferent takes (list PATH CONFIG DERIVED)" }}{{ end -}}
{{- $config := index . 1 -}}
{{- range $key, $value := index . 2 -}}
{{- $path := printf "%s.%s" (index $ 0) $key -}}
{{- if hasKey $config $key -}}
{{- $theirs := get $config $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $theirs) -}}
{{- include "grpo.refuseDifferent" (list $path $theirs $value) -}}
{{- else if ne (toJson $value) (toJson $theirs) -}}
{{- fail (printf (print "%s is %s, and the chart derives %s from the other values: remove the key, or write that "
  "[job/derived-key-differs]")
  $path (toJson $theirs) (toJson $value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseBooleanKeys (list PATH VALUE): Helm reads the unquoted keys n, no, off, y, yes, on as false and true,
     so the framework would never see them. */}}
{{- define "grpo.refuseBooleanKeys" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.refuseBooleanKeys takes (list PATH VALUE)" }}{{ end -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value -}}
{{- if has $key (list "true" "false") -}}
{{- fail (printf (print "%s.%s: Helm reads an unquoted %s as this key. Write it in quotes, for instance \"n\": 8 (a "
  "key that is really called %s cannot be given) [values/boolean-key]")
  $path $key (ternary "y, yes or on" "n, no or off" (eq $key "true")) $key) -}}
{{- end -}}
{{- include "grpo.refuseBooleanKeys" (list (printf "%s.%s" $path $key) $inner) -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $i, $item := $value }}{{ include "grpo.refuseBooleanKeys" (list (printf "%s[%d]" $path $i) $item) }}{{ end -}}
{{- end -}}
{{- end }}
