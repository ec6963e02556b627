{{/* common.gcsfuseOptions: mount options of a bucket, as JSON map: those of its purpose, and the user's over them.
     Each option and its reason:
       implicit-dirs                    folders that another tool has uploaded are seen, not only those made by a mount
       rename-dir-limit                 NeMo RL finishes a step by renaming its folder; the driver refuses that on a bucket without
                                        hierarchical namespace, but for A3 and A4 machines, and the head is none
       metadata-cache:ttl-secs 0        the record of who owns a run, and a step that another pod has finished, are seen at once
       metadata-cache:ttl-secs -1       data does not change while the pods run, so that each file is asked for once
       metadata-cache:negative-ttl-secs 0   a file that was missing a moment ago is found: one pod downloads, the others wait for it
       metadata-cache:stat-cache-max-size-mb   room for what is kept, within the sidecar's memory
                                                                  include "common.gcsfuseOptions" $volume.gcsfuse | fromJson */}}
{{- define "common.gcsfuseOptions" -}}
{{- $both := dict "implicit-dirs" "" "metadata-cache:negative-ttl-secs" "0" -}}
{{- $sets := dict
  "checkpoints" (dict "metadata-cache:ttl-secs" "0" "rename-dir-limit" "200000")
  "data" (dict "metadata-cache:ttl-secs" "-1" "metadata-cache:stat-cache-max-size-mb" "1024")
  "cache" (dict "metadata-cache:ttl-secs" "60" "rename-dir-limit" "200000") -}}
{{- $options := dict -}}
{{- with .purpose }}{{ $options = merge (get $sets .) $both }}{{ end -}}
{{- $merged := include "common.merge" (list $options (.mountOptions | default dict)) | fromJson -}}
{{- include "common.entries" $merged -}}
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
{{- $options := include "common.gcsfuseOptions" (index . 2) | fromJson -}}
{{- $size := get $options "file-cache:max-size-mb" | default (get $options "file-cache-max-size-mb") | default "0" -}}
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
