{{/*
Parts that every Ray pod has: image, facts, resources, security.

call                                                returns
include "common.image" $                            the training image, by digest where there is one
include "common.facts" $                            what a job relies on, as JSON
include "common.environmentFacts" $ | fromJson      the variables of the head, by name
include "common.resources" (dict "cpu" "16" "memory" "64Gi" "ephemeralStorage" "50Gi" "gpus" 8)    requests and limits
include "common.securityContext" (list $ "gpu")     SecurityContext of a Ray container, as JSON
include "common.networkCapabilities" $ | fromJsonArray    capabilities that the GPU network needs
include "common.bareSecurityContext" .              SecurityContext of a container that needs no rights, as JSON
include "common.lifecycle" (list $ "head")          what a Ray container does before SIGTERM, as JSON
include "common.graceSeconds" $                     how long a pod may take for it
*/}}

{{/* common.image $: REPOSITORY@DIGEST, or REPOSITORY:TAG. */}}
{{- define "common.image" -}}
{{- $image := .Values.images.training -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository $image.tag -}}
{{- end -}}
{{- end }}

{{/* common.facts $: raycluster writes the facts on the head, and the job's entrypoint compares its own copy. The number
     of nodes is not among them: a changed fact replaces all pods, and the job counts the nodes itself. */}}
{{- define "common.facts" -}}
{{- $mounts := dict -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $source := ternary "local disk" (include "common.claimName" (list $ $name)) (hasKey $volume "ephemeral") -}}
{{- $_ := set $mounts $volume.mountPath $source -}}
{{- end -}}
{{- dict
  "accelerator" .Values.accelerator.name
  "gpusPerNode" (int64 .Values.accelerator.gpusPerNode)
  "image" (include "common.image" .)
  "rayVersion" .Values.images.training.rayVersion
  "headCpus" (include "common.headCpus" . | int64)
  "environment" (include "common.environmentFacts" . | fromJson)
  "mounts" $mounts | toJson -}}
{{- end }}

{{/* common.environmentFacts $: the same whether the charts or the post-renderer bring the wiring. A secret stands
     there by its name and key. */}}
{{- define "common.environmentFacts" -}}
{{- $variables := concat
  (include "common.wiring.variables" . | fromJsonArray)
  (include "common.environment" . | fromJsonArray)
  (include "common.userEnvironment" (list . "head") | fromJsonArray) -}}
{{- $facts := dict -}}
{{- range $variables -}}
{{- $secret := dig "valueFrom" "secretKeyRef" dict . -}}
{{- $reference := printf "key %s of Secret %s" $secret.key $secret.name -}}
{{- $_ := set $facts .name (ternary .value $reference (hasKey . "value")) -}}
{{- end -}}
{{- toJson $facts -}}
{{- end }}

{{/* common.resources AMOUNTS: requests equal limits. Without GPUs the key is left out, because nvidia.com/gpu: 0
     still earns the GPU toleration. */}}
{{- define "common.resources" -}}
{{- $amounts := dict
  "cpu" .cpu
  "memory" (include "common.quantity" .memory)
  "ephemeral-storage" (include "common.quantity" .ephemeralStorage) -}}
{{- if .gpus }}{{ $_ := set $amounts "nvidia.com/gpu" (toString .gpus) }}{{ end -}}
{{- dict "requests" $amounts "limits" $amounts | toYaml -}}
{{- end }}

{{/* common.securityContext (list $ KIND): KIND is gpu on a GPU node, else plain. The images run as root, and root
     keeps its rights over files of a shared volume. The profile names what its network needs: RDMA pins memory
     (IPC_LOCK). GPU nodes get no seccomp profile: the runtime's default forbids pidfd_getfd, by which processes share
     GPU memory. */}}
{{- define "common.securityContext" -}}
{{- if ne (len .) 2 }}{{ fail "common.securityContext takes (list $ KIND)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $onGpuNode := eq (index . 1) "gpu" -}}
{{- $kept := list "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" -}}
{{- if $onGpuNode }}{{ $kept = concat $kept (include "common.networkCapabilities" $root | fromJsonArray) }}{{ end -}}
{{- $capabilities := dict "drop" (list "ALL") "add" (concat $kept (list "KILL" "SETGID" "SETUID")) -}}
{{- $context := dict "allowPrivilegeEscalation" false "capabilities" $capabilities -}}
{{- if not $onGpuNode }}{{ $_ := set $context "seccompProfile" (dict "type" "RuntimeDefault") }}{{ end -}}
{{- toJson $context -}}
{{- end }}

{{/* common.networkCapabilities $: the post-renderer adds them to the pods of other charts. Autopilot neither allows nor
     needs them. */}}
{{- define "common.networkCapabilities" -}}
{{- $names := list -}}
{{- if and (ne .Values.network.mode "none") (not (include "common.isAutopilot" .)) -}}
{{- range $name, $needed := include "common.entries" (.Values.accelerator.capabilities | default dict) | fromJson -}}
{{- if $needed }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* common.bareSecurityContext .: no capability, no escalation. */}}
{{- define "common.bareSecurityContext" -}}
{{- dict
  "allowPrivilegeEscalation" false
  "capabilities" (dict "drop" (list "ALL"))
  "seccompProfile" (dict "type" "RuntimeDefault") | toJson -}}
{{- end }}

{{/* common.lifecycle (list $ PART): Ray kills drivers and actors at SIGTERM, so the jobs are stopped before. PART is
     head, which stops them, or worker, which only waits. */}}
{{- define "common.lifecycle" -}}
{{- if ne (len .) 2 }}{{ fail "common.lifecycle takes (list $ PART)" }}{{ end -}}
{{- $program := (index . 0).Files.Get "files/pre_stop.py" -}}
{{- $program = $program | required "files/pre_stop.py is missing from the chart" -}}
{{- $command := list "python3" "-I" "-c" $program (index . 1) -}}
{{- dict "preStop" (dict "exec" (dict "command" $command)) | toJson -}}
{{- end }}

{{/* common.graceSeconds $: a stopped job may take jobStopSeconds. The rest is for the program itself and for Ray. */}}
{{- define "common.graceSeconds" -}}
{{- add (int64 .Values.ray.head.jobStopSeconds) 30 -}}
{{- end }}
