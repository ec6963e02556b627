{{/*
Cloud Storage buckets, mounted by GCS FUSE: what is said of a bucket. Its sidecar is in _sidecar.tpl.

call                                                        returns
include "common.gcsfuseOptions" $volume.gcsfuse | fromJson  mount options of a bucket, by name; every value is a text
include "common.gcsfuseAttributes" $volume.gcsfuse | fromJson    its volume attributes, as texts by name
include "common.gcsfuseCache" $cache | fromJson             mount options of a file cache
include "common.checkGcsfuse" (list "data" $volume.gcsfuse)    nothing; fails for a file cache without a disk
*/}}

{{/* common.gcsfuseOptions GCSFUSE: the options of the bucket's purpose, those of its file cache over them, and the
     user's over both. Together the sets of one pod stay below the sidecar's default of 8Gi.
     implicit-dirs                           shows folders that another tool uploaded, not only those made by a mount
     rename-dir-limit                        NeMo RL finishes a step by renaming its folder, datasets a download. The
                                             driver refuses that on a bucket without hierarchical namespace, except on
                                             A3 and A4 machines, and the head is neither
     metadata-cache:ttl-secs 0               shows a run's owner record and a step that another pod finished at once
     metadata-cache:ttl-secs 60              finds the new refs/main of a model that was fetched again. Google's samples
                                             write -1, with which a pod would read the replaced file, and fail
     metadata-cache:ttl-secs -1              data does not change while the pods run: ask for each file once
     metadata-cache:negative-ttl-secs 0      finds a file that was missing a moment ago: one pod downloads, others wait
     metadata-cache:stat-cache-max-size-mb   keeps the cache within the sidecar's memory
     write:enable-streaming-writes           uploads a file while it is written, and stages nothing on the local disk
     write:global-max-blocks                 so many files at a time, of 32 MiB each; with the driver's 4 on a machine
                                             like the head's, the fifth is staged on the disk
     read:enable-buffered-read               reads ahead in parallel, 80 blocks of 16 MiB at most
     read_ahead_kb                           what the kernel asks for at once */}}
{{- define "common.gcsfuseOptions" -}}
{{- $all := dict "implicit-dirs" "" "metadata-cache:negative-ttl-secs" "0" -}}
{{- $writes := dict "rename-dir-limit" "200000" "write:enable-streaming-writes" "true" -}}
{{- $sets := dict
  "weights" (merge (dict "metadata-cache:ttl-secs" "60" "read:enable-buffered-read" "true"
    "read:global-max-blocks" "80" "read_ahead_kb" "131072") $writes)
  "data" (dict "metadata-cache:ttl-secs" "-1" "metadata-cache:stat-cache-max-size-mb" "1024")
  "checkpoints" (merge (dict "metadata-cache:ttl-secs" "0" "read_ahead_kb" "1024"
    "write:global-max-blocks" "128") $writes)
  "cache" (merge (dict "metadata-cache:ttl-secs" "60") $writes) -}}
{{- $options := dict -}}
{{- with .purpose }}{{ $options = merge (get $sets .) $all }}{{ end -}}
{{- $cache := dict -}}
{{- with .fileCache }}{{ $cache = include "common.gcsfuseCache" . | fromJson }}{{ end -}}
{{- $options = include "common.merge" (list $options $cache) | fromJson -}}
{{- $options = include "common.merge" (list $options (.mountOptions | default dict)) | fromJson -}}
{{- $texts := dict -}}
{{- range $option, $value := include "common.entries" $options | fromJson -}}
{{- $_ := set $texts $option (include "common.text" $value) -}}
{{- end -}}
{{- toJson $texts -}}
{{- end }}

{{/* common.gcsfuseCache SIZE: 5 percent stay free, because the kubelet evicts a pod whose cache outgrows its disk.
     A read of a part caches the whole file, in parallel streams. The cache replaces buffered reads. */}}
{{- define "common.gcsfuseCache" -}}
{{- $size := div (mul (include "common.mebibytes" . | int64) 95) 100 -}}
{{- dict
  "file-cache:max-size-mb" (toString $size)
  "file-cache:cache-file-for-range-read" "true"
  "file-cache:enable-parallel-downloads" "true"
  "read:enable-buffered-read" nil
  "read:global-max-blocks" nil
  "read_ahead_kb" "1024" | toJson -}}
{{- end }}

{{/* common.gcsfuseAttributes GCSFUSE: with a purpose the driver does not check the bucket at each mount, which runs
     into a quota when many pods start; the sidecar still reports a missing role. Data is listed at the mount. */}}
{{- define "common.gcsfuseAttributes" -}}
{{- $attributes := dict -}}
{{- if .purpose }}{{ $attributes = dict "skipCSIBucketAccessCheck" "true" }}{{ end -}}
{{- if eq (.purpose | default "") "data" }}{{ $_ := set $attributes "gcsfuseMetadataPrefetchOnMount" "true" }}{{ end -}}
{{- $attributes = include "common.merge" (list $attributes (.volumeAttributes | default dict)) | fromJson -}}
{{- $texts := dict -}}
{{- range $attribute, $value := include "common.entries" $attributes | fromJson -}}
{{- $_ := set $texts $attribute (include "common.text" $value) -}}
{{- end -}}
{{- toJson $texts -}}
{{- end }}

{{/* common.checkGcsfuse (list NAME GCSFUSE): a file cache has a disk only by fileCache; without one it grows until the
     pod is evicted. The driver turns some attributes into mount options, past the checks of those. */}}
{{- define "common.checkGcsfuse" -}}
{{- if ne (len .) 2 }}{{ fail "common.checkGcsfuse takes (list NAME GCSFUSE)" }}{{ end -}}
{{- $name := index . 0 -}}{{- $gcsfuse := index . 1 -}}
{{- range $key := list "file-cache:max-size-mb" "file-cache-max-size-mb" -}}
{{- if hasKey (include "common.entries" $gcsfuse.mountOptions | fromJson) $key -}}
{{- fail (printf (print "storage.%s.gcsfuse.mountOptions: %s asks for a file cache, for which the pods have no disk. "
  "Write its size under storage.%s.gcsfuse.fileCache instead, for instance 200Gi") $name $key $name) -}}
{{- end -}}
{{- end -}}
{{- $options := dict
  "fileCacheForRangeRead" "file-cache:cache-file-for-range-read"
  "metadataStatCacheCapacity" "metadata-cache:stat-cache-max-size-mb"
  "metadataTypeCacheCapacity" "metadata-cache:type-cache-max-size-mb"
  "metadataCacheTTLSeconds" "metadata-cache:ttl-secs"
  "metadataCacheTtlSeconds" "metadata-cache:ttl-secs" -}}
{{- range $key, $_ := include "common.entries" $gcsfuse.volumeAttributes | fromJson -}}
{{- $instead := "" -}}
{{- if eq $key "fileCacheCapacity" }}{{ $instead = "fileCache" -}}
{{- else if eq $key "mountOptions" }}{{ $instead = "mountOptions, each with its value" -}}
{{- else if hasKey $options $key }}{{ $instead = printf "mountOptions.%s" (get $options $key) -}}
{{- end -}}
{{- if $instead -}}
{{- fail (printf (print "storage.%s.gcsfuse.volumeAttributes.%s would change the mount options: "
  "write storage.%s.gcsfuse.%s") $name $key $name $instead) -}}
{{- end -}}
{{- end -}}
{{- end }}
