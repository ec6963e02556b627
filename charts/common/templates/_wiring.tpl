{{/* common.wiring: what a Ray pod needs from the cluster it lands in, as JSON {environment, mounts, volumes, initContainers, nodeSelector,
     tolerations, claims, annotations}. A pod that takes no GPU node needs variables alone. The values of a stack decide it, and not
     stack.wiring: what clashes with it is refused in both cases.  include "common.wiring" (list $ true) | fromJson */}}
{{- define "common.wiring" -}}
{{- if ne (len .) 2 }}{{ fail "common.wiring takes (list $ ON_A_GPU_NODE)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $environment := include "common.wiring.variables" $root | fromJsonArray -}}
{{- $wiring := dict "environment" $environment "mounts" list "volumes" list "initContainers" list "nodeSelector" dict "tolerations" list "claims" list "annotations" dict -}}
{{- if index . 1 -}}
{{- $folders := include "common.wiring.volumes" $root | fromJson -}}
{{- $placement := include "common.wiring.placement" $root | fromJson -}}
{{- $wiring = dict
  "environment" (concat $environment (include "common.wiring.nccl" $root | fromJsonArray))
  "mounts" $folders.mounts
  "volumes" $folders.volumes
  "initContainers" (list (include "common.wiring.checkNode" (list $root $folders.hostMounts) | fromYaml) | compact)
  "nodeSelector" $placement.nodeSelector
  "tolerations" $placement.tolerations
  "claims" (include "common.wiring.claims" $root | fromJsonArray)
  "annotations" (include "common.wiring.annotations" $root | fromJson) -}}
{{- end -}}
{{- toJson $wiring -}}
{{- end }}

{{/* common.wiring.apply: a pod template with the wiring in front of what it has, as JSON. Ray's container is the first one. A user's
     nodeSelector replaces ours. (concat makes nothing of empty lists, and nothing would be rendered as null.)
                                                                  include "common.wiring.apply" (list $template $wiring) | fromJson */}}
{{- define "common.wiring.apply" -}}
{{- $template := index . 0 -}}{{- $wiring := index . 1 -}}
{{- $ray := first $template.spec.containers -}}
{{- $_ := set $ray "env" (concat $wiring.environment $ray.env) -}}
{{- $_ := set $ray "volumeMounts" (concat $wiring.mounts $ray.volumeMounts | default list) -}}
{{- range $claim := $wiring.claims }}{{ $_ := set $ray.resources "claims" (append ($ray.resources.claims | default list) (dict "name" $claim.name)) }}{{ end -}}
{{- $_ := set $template.spec "volumes" (concat $wiring.volumes $template.spec.volumes | default list) -}}
{{- range $field, $items := dict "initContainers" $wiring.initContainers "tolerations" $wiring.tolerations "resourceClaims" $wiring.claims -}}
{{- if $items }}{{ $_ := set $template.spec $field (concat $items (get $template.spec $field | default list)) }}{{ end -}}
{{- end -}}
{{- with $wiring.nodeSelector }}{{ $_ := set $template.spec "nodeSelector" (include "common.merge" (list . ($template.spec.nodeSelector | default dict)) | fromJson) }}{{ end -}}
{{- with $wiring.annotations }}{{ $_ := set $template.metadata "annotations" (merge . ($template.metadata.annotations | default dict)) }}{{ end -}}
{{- toJson $template -}}
{{- end }}

{{/* common.wiring.variables: variables of head and workers alike, as JSON list. The driver runs on the head, and NeMo RL gives the driver's
     environment to every worker: what differs here would overwrite the workers' own.
                                                                  include "common.wiring.variables" $ | fromJsonArray */}}
{{- define "common.wiring.variables" -}}
{{- $variables := list -}}
{{- /* Elsewhere than on GKE the container toolkit brings the driver's libraries, and the image's own path stays as it is. */ -}}
{{- if and (include "common.isGoogle" .) .Values.accelerator.libraryPath -}}
{{- $libraries := list .Values.images.training.libraryPath .Values.accelerator.libraryPath | compact | join ":" -}}
{{- $variables = list (dict "name" "LD_LIBRARY_PATH" "value" $libraries) -}}
{{- end -}}
{{- if .Values.huggingface.offline.enabled -}}
{{- $variables = append $variables (dict "name" "HF_HUB_OFFLINE" "value" "1") -}}
{{- else -}}
{{- $variables = append $variables (include "common.fromSecret" (list "HF_TOKEN" .Values.huggingface.secret) | fromJson) -}}
{{- end -}}
{{- if .Values.tracking.wandb.enabled -}}
{{- $variables = append $variables (include "common.fromSecret" (list "WANDB_API_KEY" .Values.tracking.wandb.secret) | fromJson) -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* common.wiring.nccl: NCCL's settings on a GPU node, as JSON list. The script comes by BASH_ENV, because KubeRay starts Ray by
     bash and its start command stays untouched; NCCL_NET makes NCCL fail where the plugin is missing, instead of using TCP.
                                                                  include "common.wiring.nccl" $ | fromJsonArray */}}
{{- define "common.wiring.nccl" -}}
{{- $nccl := .Values.accelerator.nccl -}}
{{- $environment := list -}}
{{- if ne .Values.network.mode "none" -}}
{{- range $name, $value := dict "BASH_ENV" $nccl.environmentScript "NCCL_NET" $nccl.net "NCCL_TUNER_CONFIG_PATH" $nccl.tunerConfig -}}
{{- if $value }}{{ $environment = append $environment (dict "name" $name "value" $value) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $environment = concat $environment (list
  (dict "name" "NCCL_SOCKET_IFNAME" "value" $nccl.socketInterface)
  (dict "name" "GLOO_SOCKET_IFNAME" "value" $nccl.socketInterface)) -}}
{{- range $name, $value := include "common.entries" ($nccl.env | default dict) | fromJson -}}
{{- $environment = append $environment (dict "name" $name "value" $value) -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.wiring.volumes: driver folders of the node and /dev/shm, as JSON {volumes, mounts, hostMounts}. type Directory: without it a
     missing folder is created empty and hides the driver. GKE's nodes alone have these folders. The folder of the RDMA plugin, which
     holds its script, is left out where there is no RDMA.        include "common.wiring.volumes" $ | fromJson */}}
{{- define "common.wiring.volumes" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $volumes := list (dict "name" "shared-memory" "emptyDir" (dict "medium" "Memory" "sizeLimit" (include "common.quantity" $accelerator.sharedMemory))) -}}
{{- $mounts := list -}}
{{- $paths := ternary (include "common.entries" $accelerator.hostPaths | fromJson) dict (ne (include "common.isGoogle" .) "") -}}
{{- range $name := keys $paths | sortAlpha -}}
{{- $path := get $paths $name -}}
{{- $ofPlugin := hasPrefix (printf "%s/" $path.mountPath) ($accelerator.nccl.environmentScript | default "") -}}
{{- if not (and $ofPlugin (eq $.Values.network.mode "none")) -}}
{{- $volumes = append $volumes (dict "name" (printf "host-%s" $name) "hostPath" (dict "path" $path.hostPath "type" "Directory")) -}}
{{- $mounts = append $mounts (dict "name" (printf "host-%s" $name) "mountPath" $path.mountPath "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- dict "volumes" $volumes "hostMounts" $mounts "mounts" (append $mounts (dict "name" "shared-memory" "mountPath" "/dev/shm")) | toJson -}}
{{- end }}
