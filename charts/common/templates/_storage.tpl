{{/* common.volumes: the volumes of the stack, checked, as JSON. A volume has exactly one source; an entry or a source that a later
     file set to null is gone.                                    include "common.volumes" $ | fromJson */}}
{{- define "common.volumes" -}}
{{- $volumes := dict -}}
{{- range $name, $volume := include "common.entries" .Values.storage | fromJson -}}
{{- $entry := include "common.entries" $volume | fromJson -}}
{{- $sources := list -}}
{{- range $source := list "existingClaim" "gcsfuse" "lustre" "pvc" "ephemeral" }}{{ if hasKey $entry $source }}{{ $sources = append $sources $source }}{{ end }}{{ end -}}
{{- if ne (len $sources) 1 -}}
{{- fail (printf "storage.%s has %d sources (%s): give exactly one of existingClaim, gcsfuse, lustre, pvc, ephemeral, and set one of an earlier file to null" $name (len $sources) (join ", " $sources)) -}}
{{- end -}}
{{- if or (eq $name "shared-memory") (hasPrefix "host-" $name) -}}
{{- fail (printf "storage.%s: the pods have a volume of that name already (shared-memory and host-… are the chart's). Choose another name" $name) -}}
{{- end -}}
{{- $_ := set $volumes $name $entry -}}
{{- end -}}
{{- include "common.checkMountPaths" (list . $volumes) -}}
{{- toJson $volumes -}}
{{- end }}

{{/* common.checkMountPaths: fail where two mounts of a worker have the same path; the API server says so only when KubeRay makes the pod.
                                                                  include "common.checkMountPaths" (list $ $volumes) */}}
{{- define "common.checkMountPaths" -}}
{{- $taken := dict "/dev/shm" "the chart's shared memory" -}}
{{- range $name, $path := include "common.entries" ((index . 0).Values.accelerator).hostPaths | fromJson -}}
{{- $_ := set $taken $path.mountPath (printf "accelerator.hostPaths.%s" $name) -}}
{{- end -}}
{{- range $name, $volume := index . 1 -}}
{{- if hasKey $taken $volume.mountPath -}}
{{- fail (printf "storage.%s.mountPath is %s, where %s is mounted already. Choose another folder" $name $volume.mountPath (get $taken $volume.mountPath)) -}}
{{- end -}}
{{- $_ := set $taken $volume.mountPath (printf "storage.%s" $name) -}}
{{- end -}}
{{- end }}

{{/* common.mountPath: where a volume that another key names is mounted; fails with the key's name where there is none.
                                                                  include "common.mountPath" (list $ "job.volume" "data") */}}
{{- define "common.mountPath" -}}
{{- $root := index . 0 -}}{{- $key := index . 1 -}}{{- $name := index . 2 -}}
{{- $volumes := include "common.volumes" $root | fromJson -}}
{{- if not (hasKey $volumes $name) -}}
{{- fail (printf "%s is %q, and storage has no volume of that name (it has: %s). Add storage.%s to your site file or name another volume" $key $name (keys $volumes | sortAlpha | join ", " | default "none") $name) -}}
{{- end -}}
{{- (get $volumes $name).mountPath -}}
{{- end }}

{{/* common.podVolumes: volumes, mounts and pod annotations that the storage section gives to a pod, as JSON.
                                                                  include "common.podVolumes" $ | fromJson */}}
{{- define "common.podVolumes" -}}
{{- $root := . -}}
{{- $volumes := list -}}{{- $mounts := list -}}{{- $annotations := dict -}}
{{- $entries := include "common.volumes" $root | fromJson -}}
{{- range $name := keys $entries | sortAlpha -}}
{{- $entry := get $entries $name -}}
{{- $volume := dict "name" $name -}}
{{- if hasKey $entry "ephemeral" -}}
{{- $_ := set $volume "emptyDir" (dict "sizeLimit" (include "common.quantity" $entry.ephemeral.size)) -}}
{{- else -}}
{{- $_ := set $volume "persistentVolumeClaim" (dict "claimName" (include "common.claimName" (list $root $name))) -}}
{{- end -}}
{{- $volumes = append $volumes $volume -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" $entry.mountPath) -}}
{{- if include "common.isBucket" $entry }}{{ $annotations = include "common.gcsfuseAnnotations" $root | fromJson }}{{ end -}}
{{- with $entry.gcsfuse }}{{ include "common.checkFileCache" (list $root $name .) }}{{ end -}}
{{- end -}}
{{- if and $annotations $root.Values.ray.gcsfuse.cacheSize -}}
{{- /* The driver's webhook looks for this name, and mounts the volume into its sidecar. */ -}}
{{- $volumes = append $volumes (dict "name" "gke-gcsfuse-cache" "emptyDir" (dict "sizeLimit" (include "common.quantity" $root.Values.ray.gcsfuse.cacheSize))) -}}
{{- end -}}
{{- dict "volumes" $volumes "mounts" $mounts "annotations" $annotations | toJson -}}
{{- end }}

{{/* common.gcsfuseAnnotations: annotations of a pod that mounts a bucket, as JSON. Without the first no sidecar is injected, and the pod
     hangs at the mount without an error. Requests follow the limits.
                                                                  include "common.gcsfuseAnnotations" $ | fromJson */}}
{{- define "common.gcsfuseAnnotations" -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- dict
  "gke-gcsfuse/volumes" "true"
  "gke-gcsfuse/cpu-limit" $sidecar.cpu
  "gke-gcsfuse/memory-limit" (include "common.quantity" $sidecar.memory)
  "gke-gcsfuse/ephemeral-storage-limit" (include "common.gcsfuseDisk" .) | toJson -}}
{{- end }}

{{/* common.gcsfuseDisk: local disk of the sidecar, as a quantity. The file cache counts against it: the kubelet evicts a pod that uses
     more than its containers together may.                       include "common.gcsfuseDisk" $ */}}
{{- define "common.gcsfuseDisk" -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- $disk := include "common.mebibytes" $sidecar.ephemeralStorage | int64 -}}
{{- with $sidecar.cacheSize }}{{ $disk = add $disk (include "common.mebibytes" . | int64) }}{{ end -}}
{{- include "common.quantity" (printf "%dMi" $disk) -}}
{{- end }}

{{/* common.isBucket: not empty where a volume is a Cloud Storage bucket, ours or somebody's.
                                                                  include "common.isBucket" $volume */}}
{{- define "common.isBucket" -}}
{{- $claimed := dig "gcsfuse" "enabled" false (.existingClaim | default dict) -}}
{{- if or (hasKey . "gcsfuse") $claimed }}yes{{ end -}}
{{- end }}

{{/* common.checkFileCache: fail where a bucket has a file cache and the pods have less room for it: it would grow until the pod is
     evicted.                                                     include "common.checkFileCache" (list $ "data" $volume.gcsfuse) */}}
{{- define "common.checkFileCache" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $size := get (include "common.entries" ((index . 2).mountOptions | default dict) | fromJson) "file-cache:max-size-mb" | default "0" -}}
{{- if ne $size "0" -}}
{{- $room := $root.Values.ray.gcsfuse.cacheSize -}}
{{- if not $room -}}
{{- fail (printf "storage.%s.gcsfuse.mountOptions has a file cache, and the pods have no disk for it: set ray.gcsfuse.cacheSize, or remove file-cache:max-size-mb" $name) -}}
{{- end -}}
{{- $most := include "common.mebibytes" $room | int64 -}}
{{- if or (not (regexMatch "^[0-9]+$" $size)) (gt (int64 $size) $most) -}}
{{- fail (printf "storage.%s.gcsfuse.mountOptions: file-cache:max-size-mb is %s, and ray.gcsfuse.cacheSize is %s, beyond which the pod is evicted: write a number below %d" $name $size $room $most) -}}
{{- end -}}
{{- end -}}
{{- end }}
