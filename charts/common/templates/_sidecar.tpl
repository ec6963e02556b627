{{/*
The GCS FUSE sidecar of a pod that mounts a bucket.

call                                                        returns
include "common.gcsfuseAnnotations" $ | fromJson            annotations of a pod that mounts a bucket
include "common.gcsfuseDisk" $                              local disk of the sidecar, as a quantity
include "common.fileCaches" $                               disk of all file caches in MiB; 0 without one
include "common.cacheVolume" $ | fromJson                   the volume of that disk; empty without a file cache
include "common.isBucket" $volume                           "yes" for a volume on a bucket, else ""
*/}}

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

{{/* common.gcsfuseDisk $: the file caches count too, because the kubelet evicts a pod that uses more than the sum of
     its containers' limits. */}}
{{- define "common.gcsfuseDisk" -}}
{{- $disk := include "common.mebibytes" .Values.ray.gcsfuse.ephemeralStorage | int64 -}}
{{- include "common.quantity" (printf "%dMi" (add $disk (include "common.fileCaches" . | int64))) -}}
{{- end }}

{{/* common.fileCaches $: one disk holds the caches of all buckets. */}}
{{- define "common.fileCaches" -}}
{{- $sum := 0 -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- if include "common.isBucket" $volume -}}
{{- $bucket := $volume.gcsfuse | default (dig "gcsfuse" dict ($volume.existingClaim | default dict)) -}}
{{- with $bucket.fileCache -}}
{{- $sum = add $sum (include "common.mebibytes" . | int64) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{/* common.cacheVolume $: the driver's webhook looks for this name, and mounts the volume into its sidecar. */}}
{{- define "common.cacheVolume" -}}
{{- $volume := dict -}}
{{- with include "common.fileCaches" . | int64 -}}
{{- $disk := dict "sizeLimit" (include "common.quantity" (printf "%dMi" .)) -}}
{{- $volume = dict "name" "gke-gcsfuse-cache" "emptyDir" $disk -}}
{{- end -}}
{{- toJson $volume -}}
{{- end }}

{{/* common.isBucket VOLUME: the bucket is ours (gcsfuse) or behind an existing claim. */}}
{{- define "common.isBucket" -}}
{{- $claimed := dig "gcsfuse" "enabled" false (.existingClaim | default dict) -}}
{{- if or (hasKey . "gcsfuse") $claimed }}yes{{ end -}}
{{- end }}
