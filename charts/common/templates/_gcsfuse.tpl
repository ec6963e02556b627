{{/*
Cloud Storage buckets, mounted by GCS FUSE.

call                                                        returns
include "common.gcsfuseOptions" $volume.gcsfuse | fromJson  mount options of a bucket, by name
include "common.gcsfuseAnnotations" $ | fromJson            annotations of a pod that mounts a bucket
include "common.gcsfuseDisk" $                              local disk of the sidecar, as a quantity
include "common.isBucket" $volume                           "yes" for a volume on a bucket, else ""
include "common.checkFileCache" (list $ "data" $volume.gcsfuse)    nothing; fails where a file cache has no room
*/}}

{{/* common.gcsfuseOptions GCSFUSE: the options of the bucket's purpose, with the user's over them.
     implicit-dirs                           shows folders that another tool uploaded, not only those made by a mount
     rename-dir-limit                        NeMo RL finishes a step by renaming its folder. The driver refuses that on
                                             a bucket without hierarchical namespace, except on A3 and A4 machines, and
                                             the head is neither
     metadata-cache:ttl-secs 0               shows a run's owner record and a step that another pod finished at once
     metadata-cache:ttl-secs -1              data does not change while the pods run: ask for each file once
     metadata-cache:negative-ttl-secs 0      finds a file that was missing a moment ago: one pod downloads, others wait
     metadata-cache:stat-cache-max-size-mb   keeps the cache within the sidecar's memory */}}
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

{{/* common.gcsfuseAnnotations $: without the first annotation no sidecar is injected, and the pod hangs at the mount
     without an error. The sidecar's requests follow these limits. */}}
{{- define "common.gcsfuseAnnotations" -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- dict
  "gke-gcsfuse/volumes" "true"
  "gke-gcsfuse/cpu-limit" $sidecar.cpu
  "gke-gcsfuse/memory-limit" (include "common.quantity" $sidecar.memory)
  "gke-gcsfuse/ephemeral-storage-limit" (include "common.gcsfuseDisk" .) | toJson -}}
{{- end }}

{{/* common.gcsfuseDisk $: the file cache counts too, because the kubelet evicts a pod that uses more than the sum of
     its containers' limits. */}}
{{- define "common.gcsfuseDisk" -}}
{{- $sidecar := .Values.ray.gcsfuse -}}
{{- $disk := include "common.mebibytes" $sidecar.ephemeralStorage | int64 -}}
{{- with $sidecar.cacheSize }}{{ $disk = add $disk (include "common.mebibytes" . | int64) }}{{ end -}}
{{- include "common.quantity" (printf "%dMi" $disk) -}}
{{- end }}

{{/* common.isBucket VOLUME: the bucket is ours (gcsfuse) or behind an existing claim. */}}
{{- define "common.isBucket" -}}
{{- $claimed := dig "gcsfuse" "enabled" false (.existingClaim | default dict) -}}
{{- if or (hasKey . "gcsfuse") $claimed }}yes{{ end -}}
{{- end }}

{{/* common.checkFileCache (list $ NAME GCSFUSE): a file cache larger than the pod's room for it grows until the pod
     is evicted. */}}
{{- define "common.checkFileCache" -}}
{{- if ne (len .) 3 }}{{ fail "common.checkFileCache takes (list $ NAME GCSFUSE)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $options := include "common.gcsfuseOptions" (index . 2) | fromJson -}}
{{- $size := get $options "file-cache:max-size-mb" | default (get $options "file-cache-max-size-mb") | default "0" -}}
{{- if ne $size "0" -}}
{{- $room := $root.Values.ray.gcsfuse.cacheSize -}}
{{- if not $room -}}
{{- fail (printf (print "storage.%s.gcsfuse.mountOptions has a file cache, but the pods have no disk for it: set "
  "ray.gcsfuse.cacheSize, or remove file-cache:max-size-mb") $name) -}}
{{- end -}}
{{- $most := include "common.mebibytes" $room | int64 -}}
{{- if or (not (regexMatch "^[0-9]+$" $size)) (gt (int64 $size) $most) -}}
{{- fail (printf (print "storage.%s.gcsfuse.mountOptions: file-cache:max-size-mb is %s, but ray.gcsfuse.cacheSize "
  "is %s, and a pod that uses more is evicted: write a number below %d") $name $size $room $most) -}}
{{- end -}}
{{- end -}}
{{- end }}
