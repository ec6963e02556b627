{{/*
A local copy of the model (job.stage): the launcher copies it to the disk of each node before the trainer starts.

call                                            returns
include "grpo.stage" $ | fromJson               model, key of the configuration, and room for the copies
include "grpo.stage.disk" $                     the name of the volume that gets the copies
include "grpo.stage.check" (list $ $model)      nothing; fails where a local copy would not be read or not be needed
*/}}

{{/* grpo.stage $: bytes is the limit of the volume, which a file system of the node does not know. */}}
{{- define "grpo.stage" -}}
{{- $model := include "grpo.framework" (list . "model") -}}
{{- include "grpo.stage.check" (list . $model) -}}
{{- $name := include "grpo.stage.disk" . -}}
{{- $disk := get (include "common.volumes" . | fromJson) $name -}}
{{- $directory := printf "%s/grpo-models" $disk.mountPath -}}
{{- $advice := printf (print "raise storage.%s.ephemeral.size (%s), up to accelerator.worker.ephemeralStorage (%s), or "
  "delete copies of other models in %s")
  $name $disk.ephemeral.size .Values.accelerator.worker.ephemeralStorage $directory -}}
{{- dict
  "model" $model
  "key" (include "grpo.framework" (list . "modelKey"))
  "room" (dict
    "directory" $directory
    "volume" $disk.mountPath
    "bytes" (mul (include "common.mebibytes" $disk.ephemeral.size | int64) 1048576)
    "advice" $advice) | toJson -}}
{{- end }}

{{/* grpo.stage.disk $: the largest; of two equal ones the first by name. */}}
{{- define "grpo.stage.disk" -}}
{{- $disk := "" -}}{{- $most := int64 0 -}}
{{- $volumes := include "common.volumes" . | fromJson -}}
{{- range $name := keys $volumes | sortAlpha -}}
{{- with (get $volumes $name).ephemeral -}}
{{- $size := include "common.mebibytes" .size | int64 -}}
{{- if gt $size $most }}{{ $disk = $name }}{{ $most = $size }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if not $disk -}}
{{- fail (print "job.stage is true, but storage has no local disk for the copy: add one that is larger than the model, "
  "such as scratch: {mountPath: /scratch, ephemeral: {size: 500Gi}}, and upgrade the raycluster release") -}}
{{- end -}}
{{- $disk -}}
{{- end }}

{{/* grpo.stage.check (list $ MODEL): every node reads the model from a volume that all nodes share. */}}
{{- define "grpo.stage.check" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.stage.check takes (list $ MODEL)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $model := index . 1 -}}
{{- $volumes := include "common.volumes" $root | fromJson -}}
{{- $folder := "" -}}
{{- if hasPrefix "/" $model -}}
{{- $folder = $model -}}
{{- else -}}
{{- with $root.Values.huggingface.cache.volume -}}
{{- $folder = include "common.mountPath" (list $root "huggingface.cache.volume" .) -}}
{{- end -}}
{{- end -}}
{{- $mount := "" -}}{{- $shared := false -}}
{{- range $volume := $volumes -}}
{{- $contains := hasPrefix (printf "%s/" $volume.mountPath) (printf "%s/" $folder) -}}
{{- if and $contains (gt (len $volume.mountPath) (len $mount)) -}}
{{- $mount = $volume.mountPath -}}
{{- $shared = not (hasKey $volume "ephemeral") -}}
{{- end -}}
{{- end -}}
{{- if not $shared -}}
{{- fail (printf (print "job.stage is true, but %s is on no volume that the nodes share, so there is nothing to copy "
  "from: set job.stage to false, or put the model on such a volume (huggingface.cache.volume)") $model) -}}
{{- end -}}
{{- $policy := (include "grpo.mergedConfig" $root | fromJson).policy | default dict -}}
{{- if and (eq $root.Values.job.framework "nemo-rl") (get $policy "megatron_cfg" | default dict).enabled -}}
{{- fail (print "job.stage is true, but with policy.megatron_cfg.enabled NeMo RL reads weights that it has "
  "converted itself, below HF_HOME: set job.stage to false") -}}
{{- end -}}
{{- end }}
