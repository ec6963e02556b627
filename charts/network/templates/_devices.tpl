{{/*
What the NOTES say of a network that this chart does not make.

call                                    returns
include "network.deviceClasses" $       the DeviceClasses that pods claim
include "network.nodeLabels" $          the labels of the GPU nodes, as kubectl selects them
*/}}

{{/* network.deviceClasses $: where network.mode is dranet. */}}
{{- define "network.deviceClasses" -}}
{{- $classes := list -}}
{{- range include "common.claimedDevices" . | fromJson }}{{ $classes = append $classes .deviceClass }}{{ end -}}
{{- $classes | uniq | sortAlpha | join ", " -}}
{{- end }}

{{/* network.nodeLabels $: KEY=VALUE,… */}}
{{- define "network.nodeLabels" -}}
{{- $labels := list -}}
{{- range $key, $value := include "common.entries" .Values.accelerator.nodeSelector | fromJson -}}
{{- $labels = append $labels (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $labels -}}
{{- end }}
