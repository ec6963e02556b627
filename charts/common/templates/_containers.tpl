{{/*
The containers of a Ray pod: the user's SecurityContext, the log sidecar, the user's containers.

call                                                                        returns
include "common.overlay.containers" (list $ $template "head" $wiring)       the template with all containers, as JSON
include "common.overlay.securityContext" (list $ours $user) | fromJson      the Ray container's SecurityContext
include "common.overlay.logs" (list $ $template) | fromJson                 the template with the log sidecar
include "common.fluentBit" $ | fromYaml                                     the log sidecar without its mounts
*/}}

{{/* common.overlay.containers (list $ TEMPLATE PART WIRING): the Ray container stays the first one. */}}
{{- define "common.overlay.containers" -}}
{{- if ne (len .) 4 }}{{ fail "common.overlay.containers takes (list $ TEMPLATE PART WIRING)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $template := index . 1 -}}{{- $part := index . 2 -}}{{- $wiring := index . 3 -}}
{{- $user := get $root.Values.ray $part -}}
{{- $ray := first $template.spec.containers -}}
{{- $context := include "common.overlay.securityContext" (list $ray.securityContext $user) | fromJson -}}
{{- $_ := set $ray "securityContext" $context -}}
{{- if $root.Values.ray.logs.fluentBit.enabled -}}
{{- $template = include "common.overlay.logs" (list $root $template) | fromJson -}}
{{- end -}}
{{- $containers := dict
  "initContainers" ($template.spec.initContainers | default list)
  "sidecars" $template.spec.containers -}}
{{- $taken := dict -}}
{{- range concat $wiring.initContainers $containers.initContainers $containers.sidecars -}}
{{- $_ := set $taken .name true -}}
{{- end -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $user $kind) | fromJson -}}
{{- if hasKey $taken $name -}}
{{- fail (printf "ray.%s.%s.%s: the pod already has a container with that name. Choose another name"
  $part $kind $name) -}}
{{- end -}}
{{- $_ := set $taken $name true -}}
{{- $_ := set $containers $kind (append (get $containers $kind) (merge (dict "name" $name) $container)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $template.spec "containers" $containers.sidecars -}}
{{- with $containers.initContainers }}{{ $_ := set $template.spec "initContainers" . }}{{ end -}}
{{- toJson $template -}}
{{- end }}

{{/* common.overlay.securityContext (list OURS USER): privileged takes ours away. The user's capabilities.add joins
     ours: a list that replaced it would lose root's rights over the files of a shared volume. */}}
{{- define "common.overlay.securityContext" -}}
{{- if ne (len .) 2 }}{{ fail "common.overlay.securityContext takes (list OURS USER)" }}{{ end -}}
{{- $theirs := include "common.entries" (index . 1).securityContext | fromJson -}}
{{- $ours := ternary dict (index . 0) (dig "privileged" false (index . 1).securityContext) -}}
{{- $added := dig "capabilities" "add" list $theirs -}}
{{- if $added -}}
{{- $_ := set $theirs.capabilities "add" (concat (dig "capabilities" "add" list $ours) $added | uniq) -}}
{{- end -}}
{{- include "common.merge" (list $ours $theirs) -}}
{{- end }}

{{/* common.overlay.logs (list $ TEMPLATE): the sidecar reads the volume that the user mounts at /tmp/ray, or an
     emptyDir. */}}
{{- define "common.overlay.logs" -}}
{{- if ne (len .) 2 }}{{ fail "common.overlay.logs takes (list $ TEMPLATE)" }}{{ end -}}
{{- $template := index . 1 -}}
{{- $ray := first $template.spec.containers -}}
{{- $logs := dict -}}
{{- range $ray.volumeMounts }}{{ if eq .mountPath "/tmp/ray" }}{{ $logs = . }}{{ end }}{{ end -}}
{{- if not $logs -}}
{{- $logs = dict "name" "ray-logs" "mountPath" "/tmp/ray" -}}
{{- $_ := set $ray "volumeMounts" (append $ray.volumeMounts $logs) -}}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes (dict "name" "ray-logs" "emptyDir" dict)) -}}
{{- end -}}
{{- $sidecar := include "common.fluentBit" (index . 0) | fromYaml -}}
{{- $_ := set $sidecar "volumeMounts" (list (merge (dict "readOnly" true) $logs)) -}}
{{- $_ := set $template.spec "containers" (append $template.spec.containers $sidecar) -}}
{{- toJson $template -}}
{{- end }}

{{/* common.fluentBit $: it writes the lines of Ray's log files to its output, and needs no configuration file. */}}
{{- define "common.fluentBit" -}}
name: fluent-bit
image: {{ .Values.ray.logs.fluentBit.image | quote }}
args: [-q, -i, tail, -p, "path=/tmp/ray/session_latest/logs/*", -p, path_key=file, -p, read_from_head=true,
  -o, stdout, -p, format=json_lines]
resources:
  {{- include "common.resources" (dict "cpu" "1" "memory" "256Mi" "ephemeralStorage" "1Gi") | nindent 2 }}
securityContext: {{ include "common.bareSecurityContext" . }}
{{- end }}
