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
{{- if or (has $name (list "shared-memory" "ray-logs" "gke-gcsfuse-cache" "tmp")) (hasPrefix "host-" $name) -}}
{{- fail (printf "storage.%s: the pods have a volume of that name already (shared-memory, ray-logs, gke-gcsfuse-cache, tmp and host-… are the chart's). Choose another name" $name) -}}
{{- end -}}
{{- $_ := set $volumes $name $entry -}}
{{- end -}}
{{- include "common.checkMountPaths" (list . $volumes) -}}
{{- toJson $volumes -}}
{{- end }}

{{/* common.checkMountPaths: fail where two mounts of a worker have the same path; the API server says so only when KubeRay makes the pod.
                                                                  include "common.checkMountPaths" (list $ $volumes) */}}
{{- define "common.checkMountPaths" -}}
{{- $taken := dict "/dev/shm" "the chart's shared memory" "/tmp" "each pod's own scratch" "/tmp/ray" "each pod's own Ray session" -}}
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

{{/* common.mountPath: where a volume that another key names is mounted; fails with the names of all keys that name it where there is none.
                                                                  include "common.mountPath" (list $ "job.volume" "data") */}}
{{- define "common.mountPath" -}}
{{- $root := index . 0 -}}{{- $key := index . 1 -}}{{- $name := index . 2 -}}
{{- $volumes := include "common.volumes" $root | fromJson -}}
{{- if not (hasKey $volumes $name) -}}
{{- $named := dict "job.volume" (dig "volume" "data" ($root.Values.job | default dict)) "huggingface.cache.volume" (dig "cache" "volume" "" ($root.Values.huggingface | default dict)) -}}
{{- $too := "" -}}
{{- range $other, $volume := $named }}{{ if and (ne $other $key) (eq $volume $name) }}{{ $too = printf " (%s names it too)" $other }}{{ end }}{{ end -}}
{{- fail (printf "%s is %q%s, and storage has no volume of that name (it has: %s). Add storage.%s to your site file or name another volume" $key $name $too (keys $volumes | sortAlpha | join ", " | default "none") $name) -}}
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
{{- include "common.checkLocalDisk" (list $root $name $entry.ephemeral.size) -}}
{{- $_ := set $volume "emptyDir" (dict "sizeLimit" (include "common.quantity" $entry.ephemeral.size)) -}}
{{- else -}}
{{- $_ := set $volume "persistentVolumeClaim" (dict "claimName" (include "common.claimName" (list $root $name))) -}}
{{- end -}}
{{- $volumes = append $volumes $volume -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" $entry.mountPath) -}}
{{- $many := or (gt (int64 $root.Values.ray.workers.replicas) 0) $root.Values.tracking.tensorboard.server.enabled -}}
{{- if and $many (eq (dig "accessMode" "" ($entry.pvc | default dict)) "ReadWriteOnce") -}}
{{- fail (printf "storage.%s.pvc.accessMode is ReadWriteOnce, and pods on several nodes mount the volume: all but one would wait for ever. Use a class with ReadWriteMany" $name) -}}
{{- end -}}
{{- if include "common.isBucket" $entry }}{{ $annotations = include "common.gcsfuseAnnotations" $root | fromJson }}{{ end -}}
{{- with $entry.gcsfuse }}{{ include "common.checkFileCache" (list $root $name .) }}{{ end -}}
{{- end -}}
{{- if and (not $annotations) $root.Values.ray.gcsfuse.cacheSize -}}
{{- fail "ray.gcsfuse.cacheSize: no volume of storage is a bucket, and nothing would use the disk. Remove it" -}}
{{- end -}}
{{- if and $annotations $root.Values.ray.gcsfuse.cacheSize -}}
{{- /* The driver's webhook looks for this name, and mounts the volume into its sidecar. */ -}}
{{- $volumes = append $volumes (dict "name" "gke-gcsfuse-cache" "emptyDir" (dict "sizeLimit" (include "common.quantity" $root.Values.ray.gcsfuse.cacheSize))) -}}
{{- end -}}
{{- dict "volumes" $volumes "mounts" $mounts "annotations" $annotations | toJson -}}
{{- end }}

{{/* common.checkLocalDisk: fail where a volume on local disk is larger than the disk of a worker, from which it is taken. (The head
     mounts it too, and writes little there.)                     include "common.checkLocalDisk" (list $ "scratch" "500Gi") */}}
{{- define "common.checkLocalDisk" -}}
{{- $disk := (index . 0).Values.accelerator.worker.ephemeralStorage -}}
{{- if gt (include "common.mebibytes" (index . 2) | int64) (include "common.mebibytes" $disk | int64) -}}
{{- fail (printf "storage.%s.ephemeral.size is %s, and a worker has %s of local disk (accelerator.worker.ephemeralStorage), beyond which it is evicted: lower the size" (index . 1) (index . 2) $disk) -}}
{{- end -}}
{{- end }}
