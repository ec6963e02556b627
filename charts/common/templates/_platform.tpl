{{/*
The kind of cluster (platform), and what it and the machine cannot do.

call                                            returns
include "common.isGoogle" $                     "yes" on GKE, else ""
include "common.isAutopilot" $                  "yes" on GKE Autopilot, else ""
include "common.checkPlatform" $                nothing; fails where cluster or machine lack what a value asks for
include "common.checkMode" $                    nothing; fails where the profile has nothing for network.mode
include "common.checkStorageDrivers" $          nothing; fails for a volume of GKE's on another cluster
include "common.checkCapacity" $                nothing; fails where platform.capacity is not complete
*/}}

{{/* common.isGoogle $: platform.kind is gke-standard or gke-autopilot. */}}
{{- define "common.isGoogle" -}}{{ ternary "yes" "" (hasPrefix "gke-" .Values.platform.kind) }}{{- end }}

{{/* common.isAutopilot $: platform.kind is gke-autopilot. */}}
{{- define "common.isAutopilot" -}}{{ ternary "yes" "" (eq .Values.platform.kind "gke-autopilot") }}{{- end }}

{{/* common.checkPlatform $: accelerator.refuses holds the reason for each value that the machine cannot serve. */}}
{{- define "common.checkPlatform" -}}
{{- $mode := (.Values.network | default dict).mode | default "none" -}}
{{- $kind := .Values.platform.kind -}}
{{- $refuses := include "common.entries" (.Values.accelerator.refuses | default dict) | fromJson -}}
{{- $asked := dict
  "network.mode" $mode "platform.kind" $kind "platform.capacity.kind" .Values.platform.capacity.kind -}}
{{- range $key := keys $asked | sortAlpha -}}
{{- with get $refuses (get $asked $key) -}}
{{- fail (printf "%s %s does not work on %s, because %s" $key (get $asked $key) $.Values.accelerator.name .) -}}
{{- end -}}
{{- end -}}
{{- include "common.checkMode" . -}}
{{- include "common.checkCapacity" . -}}
{{- if not (include "common.isGoogle" .) -}}
{{- include "common.checkStorageDrivers" . -}}
{{- end -}}
{{- end }}

{{/* common.checkMode $: a mode that the profile says nothing of would attach nothing. Some clouds give a pod the
     devices without a request: accelerator.resources is then written, and empty. */}}
{{- define "common.checkMode" -}}
{{- $mode := (.Values.network | default dict).mode | default "none" -}}
{{- $needed := dict "multiNetwork" "interfaces" "dranet" "claims" "devices" "resources" -}}
{{- with get $needed $mode -}}
{{- $profile := $.Values.accelerator -}}
{{- $offered := list -}}
{{- range $other, $key := $needed -}}
{{- $isWritten := and (eq $other "devices") (hasKey $profile $key) -}}
{{- if or $isWritten (include "common.entries" (get $profile $key | default dict) | fromJson) -}}
{{- $offered = append $offered $other -}}
{{- end -}}
{{- end -}}
{{- if not (has $mode $offered) -}}
{{- fail (printf "network.mode is %s, but the profile of %s has no accelerator.%s: set network.mode to %s"
  $mode $profile.name . (append $offered "none" | join " or ")) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $mode "multiNetwork") (not (include "common.isGoogle" .)) -}}
{{- fail (printf (print "network.mode multiNetwork makes networks of GKE, but platform.kind is %s: set network.mode to "
  "devices, dranet or none, with a profile of your machines (values/accelerators)") .Values.platform.kind) -}}
{{- end -}}
{{- end }}

{{/* common.checkStorageDrivers $: called where the cluster is not GKE. */}}
{{- define "common.checkStorageDrivers" -}}
{{- $kind := .Values.platform.kind -}}
{{- range $name, $volume := include "common.entries" (.Values.storage | default dict) | fromJson -}}
{{- if dig "gcsfuse" "enabled" false ($volume.existingClaim | default dict) -}}
{{- fail (printf "storage.%s.existingClaim.gcsfuse needs a GKE driver, but platform.kind is %s. Remove it"
  $name $kind) -}}
{{- end -}}
{{- range $source := list "gcsfuse" "lustre" -}}
{{- if get $volume $source -}}
{{- fail (printf "storage.%s.%s needs a GKE driver, but platform.kind is %s: use existingClaim or pvc"
  $name $source $kind) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkCapacity $: how the nodes are bought. */}}
{{- define "common.checkCapacity" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- if and (not (include "common.isGoogle" .)) (or (ne $capacity.kind "on-demand") $capacity.placementPolicy) -}}
{{- fail (printf (print "platform.capacity says how GKE nodes are bought, but platform.kind is %s: remove it, and "
  "write the label of such nodes under accelerator.nodeSelector and their taint under accelerator.tolerations, as "
  "docs/howto/clouds.md does") .Values.platform.kind) -}}
{{- end -}}
{{- if and (eq $capacity.kind "reservation") (not $capacity.reservation) -}}
{{- fail (print "platform.capacity.kind is reservation, and platform.capacity.reservation is empty: write the name "
  "of the reservation there") -}}
{{- end -}}
{{- if and (ne $capacity.kind "reservation") $capacity.reservation -}}
{{- fail (printf (print "platform.capacity.reservation is %s, but platform.capacity.kind is %s: set the kind to "
  "reservation, or remove the name") $capacity.reservation $capacity.kind) -}}
{{- end -}}
{{- if and (include "common.isAutopilot" .) (contains "/" $capacity.reservation) -}}
{{- fail (printf (print "platform.capacity.reservation is %s: on Autopilot, pods cannot select a block of a "
  "reservation. Write the name alone, without the slash and what follows it") $capacity.reservation) -}}
{{- end -}}
{{- if and (eq $capacity.kind "queued") .Values.ray (not (dig "kueue" "queue" "" (.Values.ray | default dict))) -}}
{{- fail "platform.capacity.kind is queued, so Kueue requests the nodes (ProvisioningRequest): set ray.kueue.queue" -}}
{{- end -}}
{{- end }}
