{{/* grpo.nodes: GPU nodes of the job. All of the cluster by default; less only on an existing cluster, never more.
                                                                  include "grpo.nodes" $ */}}
{{- define "grpo.nodes" -}}
{{- if not .Values.accelerator.gpusPerNode -}}
{{- fail (printf "accelerator %s has no GPUs, and a training needs some: choose another profile" .Values.accelerator.name) -}}
{{- end -}}
{{- $have := include "common.gpuNodes" . | int64 -}}
{{- $want := int64 (.Values.job.nodes | default $have) -}}
{{- if gt $want $have -}}
{{- fail (printf "job.nodes is %d, and the cluster has %d GPU nodes (ray.workers.replicas, and the head where ray.head.gpus.enabled): the job would wait for nodes that never come. Lower job.nodes or raise ray.workers.replicas" $want $have) -}}
{{- end -}}
{{- if and (lt $want $have) (eq .Values.job.cluster.mode "ephemeral") -}}
{{- fail (printf "job.nodes is %d of %d GPU nodes, and job.cluster.mode is ephemeral: the other nodes would be paid and not used. Lower ray.workers.replicas by %d" $want $have (sub $have $want)) -}}
{{- end -}}
{{- $want -}}
{{- end }}

{{/* grpo.runDirectory: where the run keeps its checkpoints, logs and records.
                                                                  include "grpo.runDirectory" $ */}}
{{- define "grpo.runDirectory" -}}
{{- $volumes := include "common.volumes" . | fromJson -}}
{{- if hasKey (get $volumes .Values.job.volume | default dict) "ephemeral" -}}
{{- fail (printf "job.volume is %q, which is local disk: checkpoints there end with the pod. Name a volume that stays" .Values.job.volume) -}}
{{- end -}}
{{- with (get $volumes .Values.job.volume | default dict).gcsfuse -}}
{{- $options := include "common.gcsfuseOptions" . | fromJson -}}
{{- $fresh := get $options "metadata-cache:ttl-secs" | default (get $options "metadata-cache-ttl-secs") -}}
{{- if or (ne $fresh "0") (not (get $options "rename-dir-limit" | default (get $options "file-system:rename-dir-limit"))) -}}
{{- fail (printf "job.volume is %q, a bucket whose mount options neither show what another pod has just written nor let a finished step be renamed: set storage.%s.gcsfuse.purpose to checkpoints" $.Values.job.volume $.Values.job.volume) -}}
{{- end -}}
{{- end -}}
{{- printf "%s/runs/%s" (include "common.mountPath" (list . "job.volume" .Values.job.volume)) .Values.job.name -}}
{{- end }}

{{/* grpo.jobDirectory: where the records of this job lie: the run directory itself, or a folder of the task in it.
                                                                  include "grpo.jobDirectory" $ */}}
{{- define "grpo.jobDirectory" -}}
{{- include "grpo.runDirectory" . -}}
{{- if not (include "grpo.trains" .) }}/tasks/{{ .Values.job.task }}{{ end -}}
{{- end }}

{{/* grpo.datasets: folder of prepared data.                       include "grpo.datasets" $ */}}
{{- define "grpo.datasets" -}}
{{- printf "%s/datasets" (include "common.mountPath" (list . "job.volume" .Values.job.volume)) -}}
{{- end }}

{{/* grpo.code: what job.code says, with its folder, as JSON; null without it. The folder's name says what is in it, so that another
     version has another folder.                                   include "grpo.code" $ | fromJson */}}
{{- define "grpo.code" -}}
{{- $code := .Values.job.code -}}{{- $packages := include "common.entries" $code.packages | fromJson -}}
{{- $parts := list -}}
{{- range $name := keys $packages | sortAlpha }}{{ $parts = append $parts (printf "%s-%s" $name (get $packages $name)) }}{{ end -}}
{{- if ne (empty $code.repository) (empty $code.revision) }}{{ fail "job.code: give repository and revision together" }}{{ end -}}
{{- if $code.repository }}{{ $parts = prepend $parts (printf "%s-%s" (base $code.repository | trimSuffix ".git") (trunc 12 $code.revision)) }}{{ end -}}
{{- if not $parts -}}null
{{- else -}}
{{- $mount := include "common.mountPath" (list . "job.code.volume" ($code.volume | default .Values.job.volume)) -}}
{{- dict "directory" (printf "%s/code/%s" $mount (join "+" $parts)) "packages" $packages "repository" $code.repository "revision" $code.revision | toJson -}}
{{- end -}}
{{- end }}

{{/* grpo.attemptDirectory: what this attempt writes and reads: configuration, output, code of its workers.
                                                                  include "grpo.attemptDirectory" $ */}}
{{- define "grpo.attemptDirectory" -}}
{{- printf "%s/attempts/%d" (include "grpo.jobDirectory" .) (int64 .Values.job.attempt) -}}
{{- end }}

{{/* grpo.ephemeralReplicas: GPU workers of a cluster that the job brings itself: what the task needs, and no node more.
                                                                  include "grpo.ephemeralReplicas" $ */}}
{{- define "grpo.ephemeralReplicas" -}}
{{- if include "grpo.trains" . -}}{{ int64 .Values.ray.workers.replicas }}
{{- else -}}{{ ternary 1 0 (and (ne (include "grpo.usesGpus" .) "") (not .Values.ray.head.gpus.enabled)) }}
{{- end -}}
{{- end }}

{{/* grpo.bringsGpuNodes: text when the job has a cluster of its own, and GPU nodes in it.
                                                                  include "grpo.bringsGpuNodes" $ */}}
{{- define "grpo.bringsGpuNodes" -}}
{{- if and (eq .Values.job.cluster.mode "ephemeral") (or .Values.ray.head.gpus.enabled (include "grpo.ephemeralReplicas" . | int64)) }}true{{ end -}}
{{- end }}

{{/* grpo.runName: name of the RayJob, which carries the task unless it is the training.
                                                                  include "grpo.runName" $ */}}
{{- define "grpo.runName" -}}
{{- $task := ternary "" (printf "-%s" .Values.job.task) (eq .Values.job.task "train") -}}
{{- $name := printf "%s%s-%d" .Values.job.name $task (int64 .Values.job.attempt) -}}
{{- $longest := printf "%s-prepare-data-%d" .Values.job.name (int64 .Values.job.attempt) -}}
{{- if gt (len $longest) 47 }}{{ fail (printf "the RayJob of a task would be called %s, which has %d characters, and KubeRay allows 47: shorten job.name" $longest (len $longest)) }}{{ end -}}
{{- $name -}}
{{- end }}
