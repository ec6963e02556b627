{{/*
What the user lays over a pod (ray.head and ray.workers), checked against what the charts set.

call                                                                    returns
include "common.overlay" (list $ $template "workers" $wiring)           the whole pod template, as JSON
include "common.overlay.checkMetadata" (list $ $annotations "head")     nothing; fails for labels and annotations
include "common.overlay.checkClaims" (list $spec "head" $wiring)        nothing; fails for claims that the charts make
include "common.overlay.checkGrace" (list $ $spec "head")               nothing; fails for less time to save than ours
include "common.overlay.volumes" (list $template "head" $user $wiring)  the template with volumes and mounts, as JSON
include "common.overlay.checkMounts" (list $names "head" $user)         nothing; fails for a mount without a volume
*/}}

{{/* common.overlay (list $ TEMPLATE PART WIRING): PART is head or workers. Labels, annotations and podSpec come
     first, then volumes, containers and the Ray container's SecurityContext. The wiring is added later and in front,
     so that no list of the user's takes the GPU toleration or the RDMA devices away. */}}
{{- define "common.overlay" -}}
{{- if ne (len .) 4 }}{{ fail "common.overlay takes (list $ TEMPLATE PART WIRING)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $template := index . 1 -}}{{- $part := index . 2 -}}{{- $wiring := index . 3 -}}
{{- if hasKey $template "Error" }}{{ fail (printf "a pod template is not YAML: %s" (get $template "Error")) }}{{ end -}}
{{- $user := get $root.Values.ray $part -}}
{{- $ours := merge (dict) $wiring.annotations ($template.metadata.annotations | default dict) -}}
{{- include "common.overlay.checkMetadata" (list $root $ours $part) -}}
{{- $spec := include "common.entries" $user.podSpec | fromJson -}}
{{- include "common.overlay.checkClaims" (list $spec $part $wiring) -}}
{{- include "common.overlay.checkGrace" (list $root $spec $part) -}}
{{- $metadata := dict
  "labels" (include "common.entries" $user.labels | fromJson)
  "annotations" (include "common.entries" $user.annotations | fromJson) -}}
{{- $pod := include "common.merge" (list $template (dict "metadata" $metadata "spec" $spec)) | fromJson -}}
{{- if not $pod.metadata.annotations }}{{ $_ := unset $pod.metadata "annotations" }}{{ end -}}
{{- $pod = include "common.overlay.volumes" (list $pod $part $user $wiring) | fromJson -}}
{{- include "common.overlay.containers" (list $root $pod $part $wiring) -}}
{{- end }}

{{/* common.overlay.checkMetadata (list $ ANNOTATIONS PART): ANNOTATIONS are the charts' own. The user's must not
     replace one of them, nor attach a second network. */}}
{{- define "common.overlay.checkMetadata" -}}
{{- if ne (len .) 3 }}{{ fail "common.overlay.checkMetadata takes (list $ ANNOTATIONS PART)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $ours := index . 1 -}}{{- $part := index . 2 -}}
{{- $user := get $root.Values.ray $part -}}
{{- range $key, $_ := include "common.entries" $user.labels | fromJson -}}
{{- if or (hasPrefix "ray.io/" $key) (hasPrefix "grpo-charts/" $key) -}}
{{- fail (printf "ray.%s.labels.%s: the label belongs to KubeRay or to these charts. Remove it" $part $key) -}}
{{- end -}}
{{- if eq $key "kueue.x-k8s.io/queue-name" -}}
{{- fail (printf "ray.%s.labels.%s: Kueue would admit each pod separately. Remove it, and set ray.kueue.queue"
  $part $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := include "common.entries" $user.annotations | fromJson -}}
{{- if and (hasKey $ours $key) (ne (get $ours $key) $value) -}}
{{- fail (printf (print "ray.%s.annotations.%s: the charts set it themselves. Remove it, and change the value that it "
  "is computed from") $part $key) -}}
{{- end -}}
{{- if and (eq $key $root.Values.platform.keys.interfaces) (ne $root.Values.network.mode "multiNetwork") -}}
{{- fail (printf (print "ray.%s.annotations.%s attaches networks, but network.mode is %s, and a cluster can attach "
  "them in only one way. Remove it, or set network.mode to multiNetwork") $part $key $root.Values.network.mode) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.overlay.checkClaims (list SPEC PART WIRING): SPEC is the user's podSpec. */}}
{{- define "common.overlay.checkClaims" -}}
{{- if ne (len .) 3 }}{{ fail "common.overlay.checkClaims takes (list SPEC PART WIRING)" }}{{ end -}}
{{- $part := index . 1 -}}{{- $wiring := index . 2 -}}
{{- range $claim := get (index . 0) "resourceClaims" | default list -}}
{{- range $wiring.claims -}}
{{- if eq .name $claim.name -}}
{{- fail (printf (print "ray.%s.podSpec.resourceClaims: the charts claim devices under the name %s themselves. "
  "Choose another name") $part $claim.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.overlay.checkGrace (list $ SPEC PART): SPEC is the user's podSpec. */}}
{{- define "common.overlay.checkGrace" -}}
{{- if ne (len .) 3 }}{{ fail "common.overlay.checkGrace takes (list $ SPEC PART)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $spec := index . 1 -}}
{{- $needed := include "common.graceSeconds" $root | int64 -}}
{{- $given := dig "terminationGracePeriodSeconds" $needed $spec | int64 -}}
{{- if lt $given $needed -}}
{{- fail (printf (print "ray.%s.podSpec.terminationGracePeriodSeconds is %d, but a stopped job may save for %d s "
  "(ray.head.jobStopSeconds) and the end of Ray takes up to 30 s: the pod would be killed at %d s. Write %d or more, "
  "or remove it") (index . 2) $given (int64 $root.Values.ray.head.jobStopSeconds) $given $needed) -}}
{{- end -}}
{{- end }}

{{/* common.overlay.volumes (list TEMPLATE PART USER WIRING): USER is ray.<part>. The API server would refuse a clash
     only when KubeRay makes the pod. */}}
{{- define "common.overlay.volumes" -}}
{{- if ne (len .) 4 }}{{ fail "common.overlay.volumes takes (list TEMPLATE PART USER WIRING)" }}{{ end -}}
{{- $template := index . 0 -}}{{- $part := index . 1 -}}{{- $user := index . 2 -}}{{- $wiring := index . 3 -}}
{{- $ray := first $template.spec.containers -}}
{{- $names := dict -}}{{- $paths := dict -}}
{{- range concat $wiring.volumes $template.spec.volumes }}{{ $_ := set $names .name true }}{{ end -}}
{{- range concat $wiring.mounts $ray.volumeMounts }}{{ $_ := set $paths .mountPath .name }}{{ end -}}
{{- range $name, $given := include "common.entries" $user.volumes | fromJson -}}
{{- if or (hasKey $names $name) (eq $name "ray-logs") -}}
{{- fail (printf "ray.%s.volumes.%s: the pod already has a volume with that name. Choose another name" $part $name) -}}
{{- end -}}
{{- $_ := set $names $name true -}}
{{- $volume := include "common.entries" $given | fromJson -}}
{{- if ne (len $volume) 1 -}}
{{- fail (printf (print "ray.%s.volumes.%s has %d sources (%s): give exactly one. If another one is from an earlier "
  "file, set it to null") $part $name (len $volume) (keys $volume | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes (merge (dict "name" $name) $volume)) -}}
{{- end -}}
{{- range $name, $given := include "common.entries" $user.mounts | fromJson -}}
{{- $mount := merge $given (dict "name" $name) -}}
{{- if not (hasKey $names $mount.name) -}}
{{- fail (printf "ray.%s.mounts.%s: the pod has no volume %s. Add it under ray.%s.volumes, or name another one"
  $part $name $mount.name $part) -}}
{{- end -}}
{{- if hasKey $paths $mount.mountPath -}}
{{- fail (printf "ray.%s.mounts.%s: volume %s is already mounted at %s. Choose another folder"
  $part $name (get $paths $mount.mountPath) $mount.mountPath) -}}
{{- end -}}
{{- $_ := set $paths $mount.mountPath $mount.name -}}
{{- $_ := set $ray "volumeMounts" (append $ray.volumeMounts $mount) -}}
{{- end -}}
{{- include "common.overlay.checkMounts" (list $names $part $user) -}}
{{- toJson $template -}}
{{- end }}

{{/* common.overlay.checkMounts (list NAMES PART USER): NAMES are the pod's volumes, as keys. */}}
{{- define "common.overlay.checkMounts" -}}
{{- if ne (len .) 3 }}{{ fail "common.overlay.checkMounts takes (list NAMES PART USER)" }}{{ end -}}
{{- $names := index . 0 -}}{{- $part := index . 1 -}}{{- $user := index . 2 -}}
{{- range $kind := list "initContainers" "sidecars" -}}
{{- range $name, $container := include "common.entries" (get $user $kind) | fromJson -}}
{{- range $container.volumeMounts -}}
{{- if not (hasKey $names .name) -}}
{{- fail (printf (print "ray.%s.%s.%s mounts volume %s, which the pod does not have. Add it under ray.%s.volumes, "
  "or name another one") $part $kind $name .name $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
