{{/*
What GKE Autopilot refuses, or changes without a message. Called where pods are rendered.

call                                            returns
include "common.checkAutopilot" $               nothing; fails for the sidecar's size, or for the user's part of a pod
include "common.checkAutopilotPod" (list "head" .Values.ray.head)    the second part, for one pod
include "common.checkAutopilotSecurity" (list "ray.head.securityContext" $context)    the same for one container
include "common.checkAutopilotDisk" $template   nothing; fails where a pod without GPUs asks for too much local disk
*/}}

{{/* common.checkAutopilot $: passes on other clusters. */}}
{{- define "common.checkAutopilot" -}}
{{- if include "common.isAutopilot" . -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- $hasSidecar := (include "common.podVolumes" . | fromJson).annotations -}}
{{- $memory := include "common.mebibytes" $sidecar.memory | int64 -}}
{{- if and $hasSidecar (gt (int $sidecar.cpu) 2) -}}
{{- fail (printf "ray.gcsfuse.cpu is %s, but Autopilot gives the sidecar at most 2 cores. Lower it" $sidecar.cpu) -}}
{{- end -}}
{{- if and $hasSidecar (gt $memory 14336) -}}
{{- fail (printf "ray.gcsfuse.memory is %s, but Autopilot gives the sidecar at most 14Gi. Lower it" $sidecar.memory) -}}
{{- end -}}
{{- range $part := list "head" "workers" -}}
{{- include "common.checkAutopilotPod" (list $part (get $.Values.ray $part)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilotPod (list PART POD): POD is ray.<part>. */}}
{{- define "common.checkAutopilotPod" -}}
{{- if ne (len .) 2 }}{{ fail "common.checkAutopilotPod takes (list PART POD)" }}{{ end -}}
{{- $part := index . 0 -}}{{- $pod := index . 1 -}}
{{- range $field := list "hostNetwork" "hostPID" "hostIPC" -}}
{{- if get $pod.podSpec $field -}}
{{- fail (printf "ray.%s.podSpec.%s: Autopilot refuses pods in the node's namespaces. Remove it" $part $field) -}}
{{- end -}}
{{- end -}}
{{- if hasKey ($pod.podSpec.nodeSelector | default dict) "cloud.google.com/gke-nodepool" -}}
{{- fail (printf (print "ray.%s.podSpec.nodeSelector: Autopilot has no node pools to select. Remove "
  "cloud.google.com/gke-nodepool") $part) -}}
{{- end -}}
{{- range $name, $volume := include "common.entries" $pod.volumes | fromJson -}}
{{- if hasKey $volume "hostPath" -}}
{{- fail (printf (print "ray.%s.volumes.%s: Autopilot allows only the node's GPU driver folders. Use an emptyDir or "
  "a claim") $part $name) -}}
{{- end -}}
{{- end -}}
{{- $contexts := dict "securityContext" ($pod.securityContext | default dict) -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $pod $kind) | fromJson -}}
{{- $_ := set $contexts (printf "%s.%s.securityContext" $kind $name) ($container.securityContext | default dict) -}}
{{- end -}}
{{- end -}}
{{- range $path, $context := $contexts -}}
{{- include "common.checkAutopilotSecurity" (list (printf "ray.%s.%s" $part $path) $context) -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilotSecurity (list PATH CONTEXT): the capabilities are those that Autopilot's default policy
     allows. */}}
{{- define "common.checkAutopilotSecurity" -}}
{{- if ne (len .) 2 }}{{ fail "common.checkAutopilotSecurity takes (list PATH CONTEXT)" }}{{ end -}}
{{- $path := index . 0 -}}{{- $context := index . 1 -}}
{{- if $context.privileged -}}
{{- fail (printf "%s: Autopilot refuses privileged containers. Remove privileged" $path) -}}
{{- end -}}
{{- $allowed := list
  "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "NET_RAW" "SETFCAP" "SETGID"
  "SETPCAP" "SETUID" "SYS_CHROOT" "SYS_PTRACE" -}}
{{- range dig "capabilities" "add" list $context -}}
{{- if not (has . $allowed) -}}
{{- fail (printf "%s: Autopilot refuses the capability %s. Remove it" $path .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.checkAutopilotDisk TEMPLATE: the sum over the pod's containers and its GCS FUSE sidecar. */}}
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
{{- fail (printf (print "Autopilot gives a pod without GPUs 10Gi of local disk and silently cuts a larger request, "
  "but the head asks for more (%s): lower ray.head.ephemeralStorage (and the sidecar's disk: "
  "ray.gcsfuse.ephemeralStorage, storage.*.gcsfuse.fileCache), and put more on a volume "
  "(ray.head.volumes and ray.head.mounts, for instance an ephemeral claim at /tmp/ray)") (join ", " $parts)) -}}
{{- end -}}
{{- end }}
