{{/*
The wiring: what a Ray pod needs from the cluster it lands in. grpo-post-render does the same for other charts, in
Python; a test holds the two together.

call                                                                returns
include "common.wiring" (list $ ON_A_GPU_NODE) | fromJson           the wiring of one pod, by kind
include "common.wiring.apply" (list $template $wiring) | fromJson   the pod template with its wiring
include "common.wiring.variables" $ | fromJsonArray                 variables of head and workers
include "common.wiring.nccl" $ | fromJsonArray                      NCCL's variables on a GPU node
include "common.wiring.volumes" $ | fromJson                        {volumes, mounts, hostMounts} on a GPU node
*/}}

{{/* common.wiring (list $ ON_A_GPU_NODE): {environment, mounts, volumes, initContainers, nodeSelector, tolerations,
     resources, claims, annotations, hostNetwork}. A pod that takes no GPU node needs only variables. It is the same
     with stack.wiring off: what clashes with it is refused in both cases. */}}
{{- define "common.wiring" -}}
{{- if ne (len .) 2 }}{{ fail "common.wiring takes (list $ ON_A_GPU_NODE)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $environment := include "common.wiring.variables" $root | fromJsonArray -}}
{{- $wiring := dict
  "environment" $environment "mounts" list "volumes" list "initContainers" list
  "nodeSelector" dict "tolerations" list "resources" dict "claims" list "annotations" dict "hostNetwork" false -}}
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
  "resources" (include "common.wiring.resources" $root | fromJson)
  "claims" (include "common.wiring.claims" $root | fromJsonArray)
  "annotations" (include "common.wiring.annotations" $root | fromJson)
  "hostNetwork" (include "common.usesHostNetwork" $root | eq "yes") -}}
{{- end -}}
{{- toJson $wiring -}}
{{- end }}

{{/* common.wiring.apply (list TEMPLATE WIRING): the wiring stands in front of what the template has. Ray's container
     is the first one. The template's nodeSelector wins over ours. (concat of empty lists is nil, which would render
     as null.) */}}
{{- define "common.wiring.apply" -}}
{{- if ne (len .) 2 }}{{ fail "common.wiring.apply takes (list TEMPLATE WIRING)" }}{{ end -}}
{{- $template := index . 0 -}}{{- $wiring := index . 1 -}}
{{- $spec := $template.spec -}}
{{- $ray := first $spec.containers -}}
{{- $_ := set $ray "env" (concat $wiring.environment $ray.env) -}}
{{- $_ := set $ray "volumeMounts" (concat $wiring.mounts $ray.volumeMounts | default list) -}}
{{- range $name, $amount := $wiring.resources -}}
{{- range $kind := list "requests" "limits" }}{{ $_ := set (get $ray.resources $kind) $name $amount }}{{ end -}}
{{- end -}}
{{- if $wiring.hostNetwork -}}
{{- $_ := set $spec "hostNetwork" true -}}
{{- $_ := set $spec "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- range $wiring.claims -}}
{{- $_ := set $ray.resources "claims" (append ($ray.resources.claims | default list) (dict "name" .name)) -}}
{{- end -}}
{{- $_ := set $spec "volumes" (concat $wiring.volumes $spec.volumes | default list) -}}
{{- $lists := dict
  "initContainers" $wiring.initContainers "tolerations" $wiring.tolerations "resourceClaims" $wiring.claims -}}
{{- range $field, $items := $lists -}}
{{- if $items }}{{ $_ := set $spec $field (concat $items (get $spec $field | default list)) }}{{ end -}}
{{- end -}}
{{- with $wiring.nodeSelector -}}
{{- $_ := set $spec "nodeSelector" (include "common.merge" (list . ($spec.nodeSelector | default dict)) | fromJson) -}}
{{- end -}}
{{- with $wiring.annotations -}}
{{- $_ := set $template.metadata "annotations" (merge . ($template.metadata.annotations | default dict)) -}}
{{- end -}}
{{- toJson $template -}}
{{- end }}

{{/* common.wiring.variables $: NeMo RL gives the environment of the driver, which runs on the head, to every worker.
     What differed here would overwrite the workers' own. Where NVIDIA's container toolkit brings the driver's
     libraries, the profile has no libraryPath, and the image's own stays. */}}
{{- define "common.wiring.variables" -}}
{{- $variables := list -}}
{{- with .Values.accelerator.libraryPath -}}
{{- $libraries := list $.Values.images.training.libraryPath . | compact | join ":" -}}
{{- $variables = list (dict "name" "LD_LIBRARY_PATH" "value" $libraries) -}}
{{- end -}}
{{- if .Values.huggingface.offline.enabled -}}
{{- $variables = append $variables (dict "name" "HF_HUB_OFFLINE" "value" "1") -}}
{{- else -}}
{{- $token := include "common.fromSecret" (list "HF_TOKEN" .Values.huggingface.secret) | fromJson -}}
{{- $variables = append $variables $token -}}
{{- end -}}
{{- if .Values.tracking.wandb.enabled -}}
{{- $key := include "common.fromSecret" (list "WANDB_API_KEY" .Values.tracking.wandb.secret) | fromJson -}}
{{- $variables = append $variables $key -}}
{{- end -}}
{{- toJson $variables -}}
{{- end }}

{{/* common.wiring.nccl $: KubeRay starts Ray by bash, so BASH_ENV brings the settings script and the start command
     stays untouched. NCCL_NET makes NCCL fail where the plugin is missing, instead of using TCP. */}}
{{- define "common.wiring.nccl" -}}
{{- $nccl := .Values.accelerator.nccl -}}
{{- $environment := list -}}
{{- if ne .Values.network.mode "none" -}}
{{- $plugin := dict
  "BASH_ENV" $nccl.environmentScript "NCCL_NET" $nccl.net "NCCL_TUNER_CONFIG_PATH" $nccl.tunerConfig -}}
{{- range $name, $value := $plugin -}}
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

{{/* common.wiring.volumes $: /dev/shm, folders of the node, and files of ConfigMaps. type Directory: without it a
     missing folder is created empty and hides the driver. What only the GPU network needs is left out without it. */}}
{{- define "common.wiring.volumes" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $memory := dict "medium" "Memory" "sizeLimit" (include "common.quantity" $accelerator.sharedMemory) -}}
{{- $volumes := list (dict "name" "shared-memory" "emptyDir" $memory) -}}
{{- $mounts := list -}}
{{- $paths := include "common.entries" $accelerator.hostPaths | fromJson -}}
{{- range $name := keys $paths | sortAlpha -}}
{{- $path := get $paths $name -}}
{{- $isPlugin := hasPrefix (printf "%s/" $path.mountPath) ($accelerator.nccl.environmentScript | default "") -}}
{{- if not (and $isPlugin (eq $.Values.network.mode "none")) -}}
{{- $folder := dict "path" $path.hostPath "type" "Directory" -}}
{{- $volumes = append $volumes (dict "name" (printf "host-%s" $name) "hostPath" $folder) -}}
{{- $mounts = append $mounts (dict "name" (printf "host-%s" $name) "mountPath" $path.mountPath "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- $others := list (dict "name" "shared-memory" "mountPath" "/dev/shm") -}}
{{- if ne .Values.network.mode "none" -}}
{{- range $name, $file := include "common.entries" ($accelerator.files | default dict) | fromJson -}}
{{- $volumes = append $volumes (dict "name" (printf "file-%s" $name) "configMap" (dict "name" $file.configMap)) -}}
{{- $others = append $others (dict
  "name" (printf "file-%s" $name) "mountPath" $file.mountPath "subPath" $file.key "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- dict "volumes" $volumes "hostMounts" $mounts "mounts" (concat $mounts $others) | toJson -}}
{{- end }}
