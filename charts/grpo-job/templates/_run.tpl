{{/*
The run: its nodes and its folders.

call                                            returns
include "grpo.nodes" $ | int64                  GPU nodes that the training uses
include "grpo.notes.cost" $                     what the GPUs and a step cost, for the NOTES
include "grpo.notes.provisional" $              that the version's own source was not read, for the NOTES
include "grpo.ephemeralReplicas" $ | int64      GPU workers of a cluster that the job brings itself
include "grpo.bringsGpuNodes" $                 "true" where the job brings its own GPU nodes, else ""
include "grpo.runDirectory" $                   the run's folder: checkpoints, logs, records
include "grpo.jobDirectory" $                   the folder of this job's records
include "grpo.attemptDirectory" $               the folder of this attempt
include "grpo.datasets" $                       the folder of prepared data
include "grpo.code" $ | fromJson                job.code with its folder; null where job.code is empty
*/}}

{{/* grpo.notes.provisional $: the sentence is generated, of schemas/catalogues/nemo-rl/provisional.yaml. */}}
{{- define "grpo.notes.provisional" -}}
{{- $versions := get (.Files.Get "files/provisional.json" | fromJson) .Values.job.framework | default dict -}}
{{- with get $versions .Values.job.version }}
{{ . }}.
{{- end -}}
{{- end }}

{{/* grpo.notes.cost $: what the GPUs cost, and how long a step took on such machines, as far as the values say so. */}}
{{- define "grpo.notes.cost" -}}
{{- $nodes := include "grpo.nodes" . | int64 -}}
{{- $hour := mulf .Values.platform.pricePerGpuHour $nodes (int64 .Values.accelerator.gpusPerNode) -}}
{{- if $hour }}
The GPUs cost {{ printf "%.2f" $hour }} $ an hour, busy or idle.
{{- end }}
{{- $model := include "grpo.framework" (list . "model") -}}
{{- with get .Values.job.stepTimes .Values.accelerator.name }}
{{- if and (eq (int64 .nodes) $nodes) (eq (.model | default $model) $model) }}
A step took {{ .seconds }} s on these machines ({{ .source }})
{{- if $hour }}: {{ printf "%.2f" (divf (mulf $hour .seconds) 3600) }} $ a step{{ end }}.
{{- end }}
{{- end }}
{{- end -}}

{{/* grpo.nodes $: all of the cluster by default; fewer only on an existing cluster, never more. */}}
{{- define "grpo.nodes" -}}
{{- if not .Values.accelerator.gpusPerNode -}}
{{- fail (printf (print "accelerator.gpusPerNode of %s is 0, but training needs GPUs: choose another profile "
  "[job/profile-without-gpus]")
  .Values.accelerator.name) -}}
{{- end -}}
{{- $have := include "common.gpuNodes" . | int64 -}}
{{- $want := int64 (.Values.job.nodes | default $have) -}}
{{- if gt $want $have -}}
{{- fail (printf (print "job.nodes is %d, and the cluster has %d GPU nodes (ray.workers.replicas, plus the head "
  "if ray.head.gpus.enabled): the job would wait for nodes that never come. Lower job.nodes or raise "
  "ray.workers.replicas [job/more-nodes-than-cluster]")
  $want $have) -}}
{{- end -}}
{{- if and (lt $want $have) (eq .Values.job.cluster.mode "ephemeral") -}}
{{- fail (printf (print "job.nodes is %d of %d GPU nodes, and job.cluster.mode is ephemeral: you would pay for "
  "nodes that the job does not use. Lower ray.workers.replicas by %d [job/nodes-paid-and-not-used]")
  $want $have (sub $have $want)) -}}
{{- end -}}
{{- $want -}}
{{- end }}

{{/* grpo.runDirectory $: on a volume that outlives the pods, and that shows at once what another pod wrote. */}}
{{- define "grpo.runDirectory" -}}
{{- $name := .Values.job.volume -}}
{{- $volume := get (include "common.volumes" . | fromJson) $name | default dict -}}
{{- if hasKey $volume "ephemeral" -}}
{{- fail (printf (print "job.volume is %q, which is local disk: its checkpoints go with the pod. Name a "
  "volume that stays [job/volume-absent]")
  $name) -}}
{{- end -}}
{{- with $volume.gcsfuse -}}
{{- $options := include "common.gcsfuseOptions" . | fromJson -}}
{{- $fresh := get $options "metadata-cache:ttl-secs" | default (get $options "metadata-cache-ttl-secs") -}}
{{- $renames := get $options "rename-dir-limit" | default (get $options "file-system:rename-dir-limit") -}}
{{- if and (eq (.purpose | default "") "checkpoints") (ne $fresh "0") -}}
{{- fail (printf (print "storage.%s.gcsfuse.mountOptions: metadata-cache:ttl-secs is %s instead of the 0 of purpose "
  "checkpoints, so a pod sees the files of another pod too late. Remove this mount option") $name $fresh) -}}
{{- end -}}
{{- if or (ne $fresh "0") (not $renames) -}}
{{- fail (printf (print "job.volume is %q, a bucket whose mount options show the files of another pod too late, or "
  "do not allow a finished step to be renamed: set storage.%s.gcsfuse.purpose to checkpoints") $name $name) -}}
{{- end -}}
{{- end -}}
{{- printf "%s/runs/%s" (include "common.mountPath" (list . "job.volume" $name)) .Values.job.name -}}
{{- end }}

{{/* grpo.jobDirectory $: the run directory itself, or a folder of the task in it. */}}
{{- define "grpo.jobDirectory" -}}
{{- include "grpo.runDirectory" . -}}
{{- if not (include "grpo.trains" .) }}/tasks/{{ .Values.job.task }}{{ end -}}
{{- end }}

{{/* grpo.attemptDirectory $: what this attempt writes and reads: configuration, output, code of its workers. */}}
{{- define "grpo.attemptDirectory" -}}
{{- printf "%s/attempts/%d" (include "grpo.jobDirectory" .) (int64 .Values.job.attempt) -}}
{{- end }}

{{/* grpo.datasets $: shared by all runs on the volume. */}}
{{- define "grpo.datasets" -}}
{{- printf "%s/datasets" (include "common.mountPath" (list . "job.volume" .Values.job.volume)) -}}
{{- end }}

{{/* grpo.code $: the folder's name says what is in it, so another version has another folder. */}}
{{- define "grpo.code" -}}
{{- $code := .Values.job.code -}}
{{- $packages := include "common.entries" $code.packages | fromJson -}}
{{- $parts := list -}}
{{- range $name := keys $packages | sortAlpha -}}
{{- $parts = append $parts (printf "%s-%s" $name (get $packages $name)) -}}
{{- end -}}
{{- if ne (empty $code.repository) (empty $code.revision) -}}
{{- fail "job.code has only one of repository and revision: give both" -}}
{{- end -}}
{{- if $code.repository -}}
{{- $parts = prepend $parts (printf "%s-%s" (base $code.repository | trimSuffix ".git") (trunc 12 $code.revision)) -}}
{{- end -}}
{{- if not $parts -}}
null
{{- else -}}
{{- $mount := include "common.mountPath" (list . "job.code.volume" ($code.volume | default .Values.job.volume)) -}}
{{- dict
  "directory" (printf "%s/code/%s" $mount (join "+" $parts))
  "packages" $packages
  "repository" $code.repository
  "revision" $code.revision | toJson -}}
{{- end -}}
{{- end }}

{{/* grpo.ephemeralReplicas $: a task other than training gets the nodes that it needs, and no more. */}}
{{- define "grpo.ephemeralReplicas" -}}
{{- if include "grpo.trains" . -}}
{{- int64 .Values.ray.workers.replicas -}}
{{- else -}}
{{- ternary 1 0 (and (ne (include "grpo.usesGpus" .) "") (not .Values.ray.head.gpus.enabled)) -}}
{{- end -}}
{{- end }}

{{/* grpo.bringsGpuNodes $: only in job.cluster.mode ephemeral. */}}
{{- define "grpo.bringsGpuNodes" -}}
{{- $nodes := or .Values.ray.head.gpus.enabled (include "grpo.ephemeralReplicas" . | int64) -}}
{{- if and (eq .Values.job.cluster.mode "ephemeral") $nodes }}true{{ end -}}
{{- end }}
