{{/* common.isGoogle: not empty on GKE.                          include "common.isGoogle" $ */}}
{{- define "common.isGoogle" -}}{{ ternary "yes" "" (hasPrefix "gke-" .Values.platform.kind) }}{{- end }}

{{/* common.isAutopilot: not empty on GKE Autopilot.              include "common.isAutopilot" $ */}}
{{- define "common.isAutopilot" -}}{{ ternary "yes" "" (eq .Values.platform.kind "gke-autopilot") }}{{- end }}

{{/* common.checkPlatform: fail where a value asks for something that this kind of cluster, or this machine, has not.
                                                                  include "common.checkPlatform" $ */}}
{{- define "common.checkPlatform" -}}
{{- $mode := (.Values.network | default dict).mode | default "none" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- $asked := dict "network.mode" $mode "platform.kind" .Values.platform.kind "platform.capacity.kind" $capacity.kind -}}
{{- range $key := keys $asked | sortAlpha -}}
{{- with get (include "common.entries" ($.Values.accelerator.refuses | default dict) | fromJson) (get $asked $key) -}}
{{- fail (printf "%s %s does not work on %s, because %s" $key (get $asked $key) $.Values.accelerator.name .) -}}
{{- end -}}
{{- end -}}
{{- include "common.checkCapacity" . -}}
{{- if not (include "common.isGoogle" .) -}}
{{- if ne $mode "none" -}}
{{- fail (printf "network.mode %s exists on GKE only, and platform.kind is %s: set network.mode to none (attach other networks by ray.workers.annotations)" $mode .Values.platform.kind) -}}
{{- end -}}
{{- range $name, $volume := include "common.entries" (.Values.storage | default dict) | fromJson -}}
{{- if dig "gcsfuse" "enabled" false ($volume.existingClaim | default dict) }}{{ fail (printf "storage.%s.existingClaim.gcsfuse needs a driver of GKE, and platform.kind is %s. Remove it" $name $.Values.platform.kind) }}{{ end -}}
{{- range $source := list "gcsfuse" "lustre" -}}
{{- if get $volume $source }}{{ fail (printf "storage.%s.%s needs a driver of GKE, and platform.kind is %s: use existingClaim or pvc" $name $source $.Values.platform.kind) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkCapacity: fail where the way to buy the nodes lacks something.
                                                                  include "common.checkCapacity" $ */}}
{{- define "common.checkCapacity" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- if not (include "common.isGoogle" .) -}}
{{- if or (ne $capacity.kind "on-demand") $capacity.placementPolicy -}}
{{- fail (printf "platform.capacity says how GKE's nodes are bought, and platform.kind is %s: leave it out, and choose nodes by ray.workers.podSpec.nodeSelector" .Values.platform.kind) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $capacity.kind "reservation") (not $capacity.reservation) -}}
{{- fail "platform.capacity.kind is reservation: name it under platform.capacity.reservation" -}}
{{- end -}}
{{- if and (ne $capacity.kind "reservation") $capacity.reservation -}}
{{- fail (printf "platform.capacity.reservation is %s, and platform.capacity.kind is %s: set the kind to reservation, or leave the name out" $capacity.reservation $capacity.kind) -}}
{{- end -}}
{{- if and (include "common.isAutopilot" .) (contains "/" $capacity.reservation) -}}
{{- fail (printf "platform.capacity.reservation is %s: pods on Autopilot choose a reservation by its name alone. Leave the block out" $capacity.reservation) -}}
{{- end -}}
{{- if and (eq $capacity.kind "queued") .Values.ray (not (dig "kueue" "queue" "" (.Values.ray | default dict))) -}}
{{- fail "platform.capacity.kind queued gets its nodes by a ProvisioningRequest of Kueue: set ray.kueue.queue" -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilot: fail where pods would be refused by Autopilot, or changed silently. Called where pods are rendered.
                                                                  include "common.checkAutopilot" $ */}}
{{- define "common.checkAutopilot" -}}
{{- if include "common.isAutopilot" . -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- $hasSidecar := (include "common.podVolumes" . | fromJson).annotations -}}
{{- if and $hasSidecar (or (gt (int $sidecar.cpu) 2) (gt (include "common.mebibytes" $sidecar.memory | int64) 14336)) -}}
{{- fail (printf "Autopilot gives the GCS FUSE sidecar 2 cores and 14Gi at most, and ray.gcsfuse asks for %s and %s: lower them" $sidecar.cpu $sidecar.memory) -}}
{{- end -}}
{{- range $part := list "head" "workers" -}}
{{- include "common.checkAutopilotPod" (list $part (get $.Values.ray $part)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilotPod: the same for what the user lays over one pod.
                                                                  include "common.checkAutopilotPod" (list "head" .Values.ray.head) */}}
{{- define "common.checkAutopilotPod" -}}
{{- $part := index . 0 -}}{{- $pod := index . 1 -}}
{{- range $field := list "hostNetwork" "hostPID" "hostIPC" -}}
{{- if get $pod.podSpec $field }}{{ fail (printf "ray.%s.podSpec.%s: Autopilot refuses pods in the node's namespaces. Remove it" $part $field) }}{{ end -}}
{{- end -}}
{{- if hasKey ($pod.podSpec.nodeSelector | default dict) "cloud.google.com/gke-nodepool" -}}
{{- fail (printf "ray.%s.podSpec.nodeSelector: Autopilot has no node pools to choose. Remove cloud.google.com/gke-nodepool" $part) -}}
{{- end -}}
{{- range $name, $volume := include "common.entries" $pod.volumes | fromJson -}}
{{- if hasKey $volume "hostPath" }}{{ fail (printf "ray.%s.volumes.%s: Autopilot allows no folder of the node but those of the GPU driver. Use an emptyDir or a claim" $part $name) }}{{ end -}}
{{- end -}}
{{- $containers := dict "securityContext" $pod -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $pod $kind) | fromJson }}{{ $_ := set $containers (printf "%s.%s.securityContext" $kind $name) $container }}{{ end -}}
{{- end -}}
{{- range $path, $container := $containers -}}
{{- $security := $container.securityContext | default dict -}}
{{- if $security.privileged }}{{ fail (printf "ray.%s.%s: Autopilot refuses privileged containers. Remove privileged" $part $path) }}{{ end -}}
{{- range dig "capabilities" "add" list $security -}}
{{- if not (has . (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "NET_RAW" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" "SYS_PTRACE")) -}}
{{- fail (printf "ray.%s.%s: Autopilot refuses the capability %s. Remove it" $part $path .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilotDisk: fail where a pod without GPUs asks for more local disk than Autopilot gives. Called with the whole pod.
                                                                  include "common.checkAutopilotDisk" $template */}}
{{- define "common.checkAutopilotDisk" -}}
{{- $disk := 0 -}}{{- $parts := list -}}
{{- range .spec.containers -}}
{{- $asked := dig "resources" "requests" "ephemeral-storage" "" . | toString -}}
{{- if regexMatch "^[0-9]+(Mi|Gi|Ti)$" $asked -}}
{{- $disk = add $disk (include "common.mebibytes" $asked | int64) -}}
{{- $parts = append $parts (printf "%s %s" .name $asked) -}}
{{- end -}}
{{- end -}}
{{- with get (.metadata.annotations | default dict) "gke-gcsfuse/ephemeral-storage-limit" -}}
{{- $disk = add $disk (include "common.mebibytes" . | int64) -}}
{{- $parts = append $parts (printf "the GCS FUSE sidecar %s" .) -}}
{{- end -}}
{{- if gt $disk 10240 -}}
{{- fail (printf "Autopilot gives a pod without GPUs 10Gi of local disk and cuts a larger request without a word, and the head asks for more (%s): lower ray.head.ephemeralStorage (and ray.gcsfuse), and put more on a volume (ray.head.volumes and ray.head.mounts, for instance an ephemeral claim at /tmp/ray)" (join ", " $parts)) -}}
{{- end -}}
{{- end }}

{{/* common.headSelector: nodeSelector of a head without GPUs, as JSON. Autopilot's default class ends at 30 cores and 110 GiB a pod.
                                                                  include "common.headSelector" $ | fromJson */}}
{{- define "common.headSelector" -}}
{{- $selector := dict -}}
{{- if include "common.isAutopilot" . -}}
{{- $cpu := int .Values.ray.head.cpu -}}{{- $memory := include "common.mebibytes" .Values.ray.head.memory | int64 -}}
{{- if (include "common.podVolumes" . | fromJson).annotations -}}
{{- $cpu = add $cpu (int .Values.ray.gcsfuse.cpu) -}}{{- $memory = add $memory (include "common.mebibytes" .Values.ray.gcsfuse.memory | int64) -}}
{{- end -}}
{{- if or (gt $cpu 30) (gt $memory 112640) }}{{ $_ := set $selector "cloud.google.com/compute-class" "Balanced" }}{{ end -}}
{{- end -}}
{{- toJson $selector -}}
{{- end }}

{{/* common.mebibytes: a quantity as a number of MiB.             include "common.mebibytes" "10Gi" | int64 */}}
{{- define "common.mebibytes" -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (regexFind "[A-Z]i$" .)) -}}
{{- end }}
