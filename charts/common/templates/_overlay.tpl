{{/* common.overlay: a pod template with what the user lays over it, as JSON: labels, annotations and podSpec, then volumes, containers and
     the Ray container's SecurityContext. The wiring comes later and in front, so that no list of the user's takes the GPU toleration
     or the RDMA devices away; what clashes with it is refused here.
                                                                  include "common.overlay" (list $ $template "workers" $wiring) | fromJson */}}
{{- define "common.overlay" -}}
{{- $root := index . 0 -}}{{- $template := index . 1 -}}{{- $part := index . 2 -}}{{- $wiring := index . 3 -}}
{{- if hasKey $template "Error" }}{{ fail (printf "a pod template is not YAML: %s" (get $template "Error")) }}{{ end -}}
{{- $user := get $root.Values.ray $part -}}
{{- $ours := merge (dict) $wiring.annotations ($template.metadata.annotations | default dict) -}}
{{- include "common.overlay.checkMetadata" (list $root $ours $part $user) -}}
{{- $spec := include "common.entries" $user.podSpec | fromJson -}}
{{- range $claim := get $spec "resourceClaims" | default list -}}
{{- range $wiring.claims -}}
{{- if eq .name $claim.name }}{{ fail (printf "ray.%s.podSpec.resourceClaims: the charts claim devices under the name %s themselves. Choose another name" $part $claim.name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $metadata := dict "labels" (include "common.entries" $user.labels | fromJson) "annotations" (include "common.entries" $user.annotations | fromJson) -}}
{{- $merged := include "common.merge" (list $template (dict "metadata" $metadata "spec" $spec)) | fromJson -}}
{{- if not $merged.metadata.annotations }}{{ $_ := unset $merged.metadata "annotations" }}{{ end -}}
{{- $merged = include "common.overlay.volumes" (list $merged $part $user $wiring) | fromJson -}}
{{- $merged = include "common.overlay.containers" (list $root $merged $part $user $wiring) | fromJson -}}
{{- toJson $merged -}}
{{- end }}

{{/* common.overlay.checkMetadata: fail where a label or annotation of the user would take away one of ours, or ask for a second network.
                                                                  include "common.overlay.checkMetadata" (list $ $annotations "head" .Values.ray.head) */}}
{{- define "common.overlay.checkMetadata" -}}
{{- $root := index . 0 -}}{{- $ours := index . 1 -}}{{- $part := index . 2 -}}{{- $user := index . 3 -}}
{{- range $key, $_ := include "common.entries" $user.labels | fromJson -}}
{{- if or (hasPrefix "ray.io/" $key) (hasPrefix "grpo-charts/" $key) -}}
{{- fail (printf "pod label %s belongs to KubeRay or to these charts and cannot be set: remove it from ray.%s.labels" $key $part) -}}
{{- end -}}
{{- if eq $key "kueue.x-k8s.io/queue-name" -}}
{{- fail (printf "ray.%s.labels: Kueue would admit each pod by itself. Remove %s, and set ray.kueue.queue" $part $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := include "common.entries" $user.annotations | fromJson -}}
{{- if and (hasKey $ours $key) (ne (get $ours $key) $value) -}}
{{- fail (printf "ray.%s.annotations: the charts set %s themselves. Remove it, and change the value it follows from" $part $key) -}}
{{- end -}}
{{- if and (eq $key "networking.gke.io/interfaces") (ne $root.Values.network.mode "multiNetwork") -}}
{{- fail (printf "ray.%s.annotations has %s, and network.mode is %s: a cluster attaches networks in one way only. Remove it, or set network.mode to multiNetwork" $part $key $root.Values.network.mode) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.overlay.volumes: the template with the user's volumes and mounts, as JSON. The API server would refuse a clash only when
     KubeRay makes the pod.                                       include "common.overlay.volumes" (list $template "head" .Values.ray.head $wiring) */}}
{{- define "common.overlay.volumes" -}}
{{- $template := index . 0 -}}{{- $part := index . 1 -}}{{- $user := index . 2 -}}{{- $wiring := index . 3 -}}
{{- $names := dict -}}{{- $paths := dict -}}
{{- range concat $wiring.volumes $template.spec.volumes }}{{ $_ := set $names .name true }}{{ end -}}
{{- $ray := first $template.spec.containers -}}
{{- range concat $wiring.mounts $ray.volumeMounts }}{{ $_ := set $paths .mountPath .name }}{{ end -}}
{{- range $name, $volume := include "common.entries" $user.volumes | fromJson -}}
{{- if or (hasKey $names $name) (eq $name "ray-logs") }}{{ fail (printf "ray.%s.volumes.%s: the pod has a volume of that name already. Choose another name" $part $name) }}{{ end -}}
{{- $_ := set $names $name true -}}
{{- $volume = include "common.entries" $volume | fromJson -}}
{{- if ne (len $volume) 1 }}{{ fail (printf "ray.%s.volumes.%s has %d sources (%s): give exactly one, and set one of an earlier file to null" $part $name (len $volume) (keys $volume | sortAlpha | join ", ")) }}{{ end -}}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes (merge (dict "name" $name) $volume)) -}}
{{- end -}}
{{- range $name, $mount := include "common.entries" $user.mounts | fromJson -}}
{{- $mount = merge $mount (dict "name" $name) -}}
{{- if not (hasKey $names $mount.name) }}{{ fail (printf "ray.%s.mounts.%s: the pod has no volume %s. Add it under ray.%s.volumes, or name another one" $part $name $mount.name $part) }}{{ end -}}
{{- if hasKey $paths $mount.mountPath }}{{ fail (printf "ray.%s.mounts.%s: volume %s is mounted at %s already. Choose another folder" $part $name (get $paths $mount.mountPath) $mount.mountPath) }}{{ end -}}
{{- $_ := set $paths $mount.mountPath $mount.name -}}
{{- $_ := set $ray "volumeMounts" (append $ray.volumeMounts $mount) -}}
{{- end -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $user $kind) | fromJson -}}
{{- range $container.volumeMounts -}}
{{- if not (hasKey $names .name) }}{{ fail (printf "ray.%s.%s.%s mounts volume %s, which the pod has not. Add it under ray.%s.volumes, or name another one" $part $kind $name .name $part) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $template -}}
{{- end }}

{{/* common.overlay.containers: the template with the log sidecar, the user's containers and SecurityContext, as JSON. Ray stays first.
                                                                  include "common.overlay.containers" (list $ $template "head" .Values.ray.head $wiring) */}}
{{- define "common.overlay.containers" -}}
{{- $root := index . 0 -}}{{- $template := index . 1 -}}{{- $part := index . 2 -}}{{- $user := index . 3 -}}
{{- $ray := first $template.spec.containers -}}
{{- $wiring := index . 4 -}}
{{- $ours := ternary dict $ray.securityContext (dig "privileged" false $user.securityContext) -}}
{{- $theirs := include "common.entries" $user.securityContext | fromJson -}}
{{- /* A list that replaced ours would lose root's rights over the files of a shared volume. */ -}}
{{- if dig "capabilities" "add" list $theirs -}}
{{- $_ := set $theirs.capabilities "add" (concat (dig "capabilities" "add" list $ours) $theirs.capabilities.add | uniq) -}}
{{- end -}}
{{- $_ := set $ray "securityContext" (include "common.merge" (list $ours $theirs) | fromJson) -}}
{{- $containers := dict "initContainers" ($template.spec.initContainers | default list) "sidecars" $template.spec.containers -}}
{{- if $root.Values.ray.logs.fluentBit.enabled -}}
{{- $logs := dict -}}
{{- range $ray.volumeMounts }}{{ if eq .mountPath "/tmp/ray" }}{{ $logs = . }}{{ end }}{{ end -}}
{{- if not $logs -}}
{{- $logs = dict "name" "ray-logs" "mountPath" "/tmp/ray" -}}
{{- $_ := set $ray "volumeMounts" (append $ray.volumeMounts $logs) -}}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes (dict "name" "ray-logs" "emptyDir" dict)) -}}
{{- end -}}
{{- $sidecar := include "common.fluentBit" $root | fromYaml -}}
{{- $_ := set $sidecar "volumeMounts" (list (merge (dict "readOnly" true) $logs)) -}}
{{- $_ := set $containers "sidecars" (append $containers.sidecars $sidecar) -}}
{{- end -}}
{{- $taken := dict -}}
{{- range concat $wiring.initContainers $containers.initContainers $containers.sidecars }}{{ $_ := set $taken .name true }}{{ end -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $user $kind) | fromJson -}}
{{- if hasKey $taken $name }}{{ fail (printf "ray.%s.%s.%s: the pod has a container of that name already. Choose another name" $part $kind $name) }}{{ end -}}
{{- $_ := set $taken $name true -}}
{{- $_ := set $containers $kind (append (get $containers $kind) (merge (dict "name" $name) $container)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $template.spec "containers" $containers.sidecars -}}
{{- with $containers.initContainers }}{{ $_ := set $template.spec "initContainers" . }}{{ end -}}
{{- toJson $template -}}
{{- end }}

{{/* common.fluentBit: the sidecar that writes the lines of Ray's log files to its output, as YAML. It needs no configuration file.
                                                                  include "common.fluentBit" $ | fromYaml */}}
{{- define "common.fluentBit" -}}
name: fluent-bit
image: {{ .Values.ray.logs.fluentBit.image | quote }}
args: [-q, -i, tail, -p, "path=/tmp/ray/session_latest/logs/*", -p, path_key=file, -p, read_from_head=true, -o, stdout, -p, format=json_lines]
resources:
  {{- include "common.resources" (dict "cpu" "1" "memory" "256Mi" "ephemeralStorage" "1Gi") | nindent 2 }}
securityContext: {{ include "common.bareSecurityContext" . }}
{{- end }}
