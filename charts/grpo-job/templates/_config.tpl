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

{{/* grpo.framework: a part that each framework has in a template file of its own: derived, workingDirectory, command, requiredFiles,
     environment, check.                                          include "grpo.framework" (list $ "derived") */}}
{{- define "grpo.framework" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.framework takes (list $ PART)" }}{{ end -}}
{{- $job := (index . 0).Values.job -}}
{{- $owner := ternary "nemo-rl" "verl" (hasPrefix "v" $job.version) -}}
{{- if ne $owner $job.framework -}}
{{- fail (printf "job.version %s is a version of %s, and job.framework is %s: set both, and images.training, to a set that belongs together" $job.version $owner $job.framework) -}}
{{- end -}}
{{- include (printf "grpo.%s.%s" $job.framework (index . 1)) (index . 0) -}}
{{- end }}

{{/* grpo.mlflowUri: address of the MLflow server.               include "grpo.mlflowUri" $ */}}
{{- define "grpo.mlflowUri" -}}
{{- .Values.tracking.mlflow.trackingUri | default "" | required "tracking.mlflow is enabled: give the address of its server under tracking.mlflow.trackingUri" -}}
{{- end }}

{{/* grpo.config: job.config with the accelerator's overlay and what the chart derives, as JSON. A derived key that job.config sets
     differently is an error.                                     include "grpo.config" $ | fromJson */}}
{{- define "grpo.config" -}}
{{- $config := include "grpo.userConfig" . | fromJson -}}
{{- $derived := include "grpo.framework" (list . "derived") | fromJson -}}
{{- include "grpo.refuseDifferent" (list "job.config" $config $derived) -}}
{{- include "common.merge" (list $config $derived) -}}
{{- end }}

{{/* grpo.userConfig: job.config with its overlays, as JSON.        include "grpo.userConfig" $ | fromJson */}}
{{- define "grpo.userConfig" -}}
{{- $overlay := get .Values.job.configFor .Values.accelerator.name | default dict -}}
{{- include "grpo.refuseBooleanKeys" (list "job.config" .Values.job.config) -}}
{{- include "grpo.refuseBooleanKeys" (list "job.configFor" .Values.job.configFor) -}}
{{- include "common.merge" (list .Values.job.config $overlay) -}}
{{- end }}

{{/* grpo.refuseDifferent: fail where the user's tree sets a derived leaf to another value.
                                                                  include "grpo.refuseDifferent" (list "job.config" $config $derived) */}}
{{- define "grpo.refuseDifferent" -}}
{{- $path := index . 0 -}}{{- $config := index . 1 -}}{{- $derived := index . 2 -}}
{{- range $key, $value := $derived -}}
{{- if hasKey $config $key -}}
{{- $theirs := get $config $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $theirs) -}}
{{- include "grpo.refuseDifferent" (list (printf "%s.%s" $path $key) $theirs $value) -}}
{{- else if ne (toJson $value) (toJson $theirs) -}}
{{- fail (printf "%s.%s is %s, and the chart derives %s from the other values: remove the key" $path $key (toJson $theirs) (toJson $value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.refuseBooleanKeys: Helm reads the unquoted keys n, no, off, y, yes, on as false and true; the framework would never see them.
                                                                  include "grpo.refuseBooleanKeys" (list "job.config" .Values.job.config) */}}
{{- define "grpo.refuseBooleanKeys" -}}
{{- $path := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if has $key (list "true" "false") -}}
{{- fail (printf "%s.%s: Helm reads an unquoted %s as this key. Write it in quotes, for instance \"n\": 8 (a key that is really called %s cannot be given)" $path $key (ternary "y, yes or on" "n, no or off" (eq $key "true")) $key) -}}
{{- end -}}
{{- include "grpo.refuseBooleanKeysIn" (list (printf "%s.%s" $path $key) $value) -}}
{{- end -}}
{{- end }}

{{- define "grpo.refuseBooleanKeysIn" -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}
{{- if kindIs "map" $value }}{{ include "grpo.refuseBooleanKeys" (list $path $value) }}
{{- else if kindIs "slice" $value -}}
{{- range $i, $item := $value }}{{ include "grpo.refuseBooleanKeysIn" (list (printf "%s[%d]" $path $i) $item) }}{{ end -}}
{{- end -}}
{{- end }}
