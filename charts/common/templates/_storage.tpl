{{/*
The volumes of the stack (storage), as head and workers mount them.

call                                                        returns
include "common.volumes" $ | fromJson                       the volumes, checked, by name
include "common.mountPath" (list $ "job.volume" "data")     where a volume that another key names is mounted
include "common.podVolumes" $ | fromJson                    {volumes, mounts, annotations} of a pod
include "common.checkMountPaths" (list $ $volumes)          nothing; fails where two mounts have one path
include "common.checkLocalDisk" (list $ "scratch" "500Gi")  nothing; fails where a local disk is larger than a worker's
*/}}

{{/* common.volumes $: a volume has exactly one source. An entry or source that a later file set to null is gone. */}}
{{- define "common.volumes" -}}
{{- if not (hasKey . "common.volumes") -}}
{{- $known := list "existingClaim" "gcsfuse" "lustre" "pvc" "ephemeral" -}}
{{- $reserved := list "shared-memory" "ray-logs" "gke-gcsfuse-cache" "tmp" -}}
{{- $volumes := dict -}}
{{- range $name, $volume := include "common.entries" .Values.storage | fromJson -}}
{{- $entry := include "common.entries" $volume | fromJson -}}
{{- $sources := list -}}
{{- range $source := $known }}{{ if hasKey $entry $source }}{{ $sources = append $sources $source }}{{ end }}{{ end -}}
{{- if ne (len $sources) 1 -}}
{{- fail (printf (print "storage.%s has %d sources (%s): give exactly one of %s. If another one is from an earlier "
  "file, set it to null [values/several-sources]") $name (len $sources) (join ", " $sources) (join ", " $known)) -}}
{{- end -}}
{{- if or (has $name $reserved) (hasPrefix "host-" $name) -}}
{{- fail (printf (print "storage.%s: the pods already have a volume with that name (%s and host-… are reserved). "
  "Choose another name") $name (join ", " $reserved)) -}}
{{- end -}}
{{- with $entry.gcsfuse }}{{ include "common.checkGcsfuse" (list $name .) }}{{ end -}}
{{- $_ := set $volumes $name $entry -}}
{{- end -}}
{{- include "common.checkMountPaths" (list . $volumes) -}}
{{- $_ := set . "common.volumes" (toJson $volumes) -}}
{{- end -}}
{{- get . "common.volumes" -}}
{{- end }}

{{/* common.checkMountPaths (list $ VOLUMES): the API server would refuse a clash only when KubeRay makes the pod.
     */}}
{{- define "common.checkMountPaths" -}}
{{- if ne (len .) 2 }}{{ fail "common.checkMountPaths takes (list $ VOLUMES)" }}{{ end -}}
{{- $accelerator := (index . 0).Values.accelerator -}}
{{- $taken := dict
  "/dev/shm" "the chart's shared memory"
  "/tmp" "each pod's own scratch"
  "/tmp/ray" "each pod's own Ray session" -}}
{{- range $name, $path := include "common.entries" $accelerator.hostPaths | fromJson -}}
{{- $_ := set $taken $path.mountPath (printf "accelerator.hostPaths.%s" $name) -}}
{{- end -}}
{{- range $name, $volume := index . 1 -}}
{{- if hasKey $taken $volume.mountPath -}}
{{- fail (printf "storage.%s.mountPath is %s, where %s is already mounted. Choose another folder"
  $name $volume.mountPath (get $taken $volume.mountPath)) -}}
{{- end -}}
{{- $_ := set $taken $volume.mountPath (printf "storage.%s" $name) -}}
{{- end -}}
{{- end }}

{{/* common.mountPath (list $ KEY VOLUME): KEY is the values key that names the volume. The message also tells the
     other key that names it, because both must change. */}}
{{- define "common.mountPath" -}}
{{- if ne (len .) 3 }}{{ fail "common.mountPath takes (list $ KEY VOLUME)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $key := index . 1 -}}{{- $name := index . 2 -}}
{{- $volumes := include "common.volumes" $root | fromJson -}}
{{- if not (hasKey $volumes $name) -}}
{{- $named := dict
  "job.volume" (dig "volume" "data" ($root.Values.job | default dict))
  "huggingface.cache.volume" (dig "cache" "volume" "" ($root.Values.huggingface | default dict)) -}}
{{- $too := "" -}}
{{- range $other, $volume := $named -}}
{{- if and (ne $other $key) (eq $volume $name) }}{{ $too = printf " (%s names it too)" $other }}{{ end -}}
{{- end -}}
{{- $has := keys $volumes | sortAlpha | join ", " | default "none" -}}
{{- fail (printf (print "%s is %q%s, and storage has no volume of that name (it has: %s). Add storage.%s to your "
  "site file or name another volume [job/volume-absent]") $key $name $too $has $name) -}}
{{- end -}}
{{- (get $volumes $name).mountPath -}}
{{- end }}

{{/* common.podVolumes $: annotations is not empty where a volume is a bucket. */}}
{{- define "common.podVolumes" -}}
{{- $root := . -}}
{{- $ray := .Values.ray -}}
{{- $several := or (gt (int64 $ray.workers.replicas) 0) .Values.tracking.tensorboard.server.enabled -}}
{{- $volumes := list -}}{{- $mounts := list -}}{{- $annotations := dict -}}
{{- $entries := include "common.volumes" $root | fromJson -}}
{{- range $name := keys $entries | sortAlpha -}}
{{- $entry := get $entries $name -}}
{{- $volume := dict "name" $name -}}
{{- if hasKey $entry "ephemeral" -}}
{{- include "common.checkLocalDisk" (list $root $name $entry.ephemeral.size) -}}
{{- $_ := set $volume "emptyDir" (dict "sizeLimit" (include "common.quantity" $entry.ephemeral.size)) -}}
{{- else -}}
{{- $claim := include "common.claimName" (list $root $name) -}}
{{- $_ := set $volume "persistentVolumeClaim" (dict "claimName" $claim) -}}
{{- end -}}
{{- $volumes = append $volumes $volume -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" $entry.mountPath) -}}
{{- if and $several (eq (dig "accessMode" "" ($entry.pvc | default dict)) "ReadWriteOnce") -}}
{{- fail (printf (print "storage.%s.pvc.accessMode is ReadWriteOnce, but pods on several nodes mount the volume: "
  "only one node would get it. Set ReadWriteMany, with a storage class that supports it") $name) -}}
{{- end -}}
{{- if include "common.isBucket" $entry -}}
{{- $annotations = include "common.gcsfuseAnnotations" $root | fromJson -}}
{{- end -}}
{{- end -}}
{{- with include "common.cacheVolume" $root | fromJson }}{{ $volumes = append $volumes . }}{{ end -}}
{{- dict "volumes" $volumes "mounts" $mounts "annotations" $annotations | toJson -}}
{{- end }}

{{/* common.checkLocalDisk (list $ NAME SIZE): the volume counts against the worker's disk. The head mounts it too,
     and writes little there. */}}
{{- define "common.checkLocalDisk" -}}
{{- if ne (len .) 3 }}{{ fail "common.checkLocalDisk takes (list $ NAME SIZE)" }}{{ end -}}
{{- $name := index . 1 -}}{{- $size := index . 2 -}}
{{- $disk := (index . 0).Values.accelerator.worker.ephemeralStorage -}}
{{- if gt (include "common.mebibytes" $size | int64) (include "common.mebibytes" $disk | int64) -}}
{{- fail (printf (print "storage.%s.ephemeral.size is %s, but a worker has %s of local disk "
  "(accelerator.worker.ephemeralStorage) and is evicted when it uses more: lower the size") $name $size $disk) -}}
{{- end -}}
{{- end }}
