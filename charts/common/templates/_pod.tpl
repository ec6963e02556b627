{{/* common.image: the training image, by digest where there is one.
                                                                  include "common.image" $ */}}
{{- define "common.image" -}}
{{- $image := .Values.images.training -}}
{{- if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}{{ else }}{{ printf "%s:%s" $image.repository $image.tag }}{{ end -}}
{{- end }}

{{/* common.facts: what a job relies on, as JSON. raycluster writes it on the head, the job's entrypoint compares its own copy.
                                                                  include "common.facts" $ */}}
{{- define "common.facts" -}}
{{- $mounts := dict -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $_ := set $mounts $volume.mountPath (ternary "local disk" (include "common.claimName" (list $ $name)) (hasKey $volume "ephemeral")) -}}
{{- end -}}
{{- dict
  "accelerator" .Values.accelerator.name
  "gpuNodes" (include "common.gpuNodes" . | int64)
  "gpusPerNode" (int64 .Values.accelerator.gpusPerNode)
  "image" (include "common.image" .)
  "rayVersion" .Values.images.training.rayVersion
  "headCpus" (include "common.headCpus" . | int64)
  "environment" (include "common.environmentFacts" . | fromJson)
  "mounts" $mounts | toJson -}}
{{- end }}

{{/* common.environmentFacts: the head's variables from the values, whoever brings the wiring, as JSON map; a secret by its name and key.
                                                                  include "common.environmentFacts" $ | fromJson */}}
{{- define "common.environmentFacts" -}}
{{- $facts := dict -}}
{{- range concat (include "common.wiring.variables" . | fromJsonArray) (include "common.environment" . | fromJsonArray) (include "common.userEnvironment" (list . "head") | fromJsonArray) -}}
{{- $secret := dig "valueFrom" "secretKeyRef" dict . -}}
{{- $_ := set $facts .name (ternary .value (printf "key %s of Secret %s" $secret.key $secret.name) (hasKey . "value")) -}}
{{- end -}}
{{- toJson $facts -}}
{{- end }}

{{/* common.resources: equal requests and limits, as YAML; GPUs only where there are any, because a zero still earns the GPU toleration.
                                                                  include "common.resources" (dict "cpu" "16" "memory" "64Gi" "ephemeralStorage" "50Gi" "gpus" 0) */}}
{{- define "common.resources" -}}
{{- $amounts := dict "cpu" .cpu "memory" (include "common.quantity" .memory) "ephemeral-storage" (include "common.quantity" .ephemeralStorage) -}}
{{- if .gpus }}{{ $_ := set $amounts "nvidia.com/gpu" (toString .gpus) }}{{ end -}}
{{- dict "requests" $amounts "limits" $amounts | toYaml -}}
{{- end }}

{{/* common.securityContext: of a Ray container, as JSON. The images run as root: what is kept are the rights of root over files of a
     shared volume. RDMA pins memory (IPC_LOCK), which Autopilot neither allows nor needs. No seccomp profile on GPU nodes: the
     runtime's own forbids pidfd_getfd, by which processes share GPU memory.
                                                                  include "common.securityContext" (list $ "gpu") | fromJson */}}
{{- define "common.securityContext" -}}
{{- $root := index . 0 -}}{{- $onGpuNode := eq (index . 1) "gpu" -}}
{{- $kept := list "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" -}}
{{- if and $onGpuNode (ne $root.Values.network.mode "none") (not (include "common.isAutopilot" $root)) }}{{ $kept = append $kept "IPC_LOCK" }}{{ end -}}
{{- $context := dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL") "add" (concat $kept (list "KILL" "SETGID" "SETUID"))) -}}
{{- if not $onGpuNode }}{{ $_ := set $context "seccompProfile" (dict "type" "RuntimeDefault") }}{{ end -}}
{{- toJson $context -}}
{{- end }}

{{/* common.bareSecurityContext: of a helper's container, which needs no right at all, as JSON.
                                                                  include "common.bareSecurityContext" . | fromJson */}}
{{- define "common.bareSecurityContext" -}}
{{- dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "seccompProfile" (dict "type" "RuntimeDefault") | toJson -}}
{{- end }}
