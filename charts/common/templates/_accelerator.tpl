{{/* common.interfaces: interfaces of a worker pod besides eth0, in the order of their numbers (eth10 after eth9), as JSON list of
     {interface, base, network, deviceMode}; base is the profile's name of the network, network the object's.
                                                                  include "common.interfaces" $ | fromJsonArray */}}
{{- define "common.interfaces" -}}
{{- $interfaces := include "common.entries" .Values.accelerator.interfaces | fromJson -}}
{{- $sorted := list -}}{{- $joined := dict -}}
{{- range $i := until 100 -}}
{{- $name := printf "eth%d" $i -}}
{{- if hasKey $interfaces $name -}}
{{- $network := (get $interfaces $name).network -}}
{{- if hasKey $joined $network -}}
{{- fail (printf "accelerator.interfaces: %s and %s both join network %s. Each interface has a network of its own" (get $joined $network) $name $network) -}}
{{- end -}}
{{- $_ := set $joined $network $name -}}
{{- $object := printf "%s%s" $.Values.network.names.prefix $network -}}
{{- $sorted = append $sorted (include "common.merge" (list (get $interfaces $name) (dict "interface" $name "base" $network "network" $object)) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $sorted -}}
{{- end }}

{{/* common.wiring.annotations: what GKE reads to attach the interfaces, as JSON map. The list itself is JSON in a string.
                                                                  include "common.wiring.annotations" $ | fromJson */}}
{{- define "common.wiring.annotations" -}}
{{- $annotations := dict -}}
{{- if eq .Values.network.mode "multiNetwork" -}}
{{- $list := list (dict "interfaceName" "eth0" "network" "default") -}}
{{- range include "common.interfaces" . | fromJsonArray -}}
{{- $list = append $list (dict "interfaceName" .interface "network" .network) -}}
{{- end -}}
{{- $annotations = dict "networking.gke.io/default-interface" "eth0" "networking.gke.io/interfaces" (toJson $list) -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{/* common.rdmaInterfaces: the interfaces with RDMA, as JSON list.  include "common.rdmaInterfaces" $ | fromJsonArray */}}
{{- define "common.rdmaInterfaces" -}}
{{- $rdma := list -}}
{{- range include "common.interfaces" . | fromJsonArray }}{{ if eq .deviceMode "RDMA" }}{{ $rdma = append $rdma . }}{{ end }}{{ end -}}
{{- toJson $rdma -}}
{{- end }}

{{/* common.wiring.claims: the claim on all RDMA devices of a node, as JSON list for spec.resourceClaims; empty where the interfaces come
     another way.                                                 include "common.wiring.claims" $ | fromJsonArray */}}
{{- define "common.wiring.claims" -}}
{{- $claims := list -}}
{{- if eq .Values.network.mode "dranet" -}}
{{- $claims = list (dict "name" "rdma" "resourceClaimTemplateName" (include "common.claimTemplateName" .)) -}}
{{- end -}}
{{- toJson $claims -}}
{{- end }}

{{/* common.claimTemplateName: name of the ResourceClaimTemplate beside the pods.
                                                                  include "common.claimTemplateName" $ */}}
{{- define "common.claimTemplateName" -}}
{{- printf "%s-rdma" (include "common.owner" .) -}}
{{- end }}

{{/* common.claimTemplate: the ResourceClaimTemplate as a document, for the chart that owns the pods.
                                                                  include "common.claimTemplate" $ */}}
{{- define "common.claimTemplate" -}}
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {{ include "common.claimTemplateName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
spec:
  spec:
    devices:
      requests:
        - name: rdma
          exactly:
            deviceClassName: mrdma.google.com
            allocationMode: ExactCount
            count: {{ include "common.rdmaInterfaces" . | fromJsonArray | len }}
{{- end }}

{{/* common.wiring.environment: NCCL's settings on a worker, as JSON list. The script comes by BASH_ENV, because KubeRay starts Ray by
     bash and its start command stays untouched; NCCL_NET makes NCCL fail where the plugin is missing, instead of using TCP.
                                                                  include "common.wiring.environment" $ | fromJsonArray */}}
{{- define "common.wiring.environment" -}}
{{- $nccl := .Values.accelerator.nccl -}}
{{- $environment := list
  (dict "name" "NCCL_SOCKET_IFNAME" "value" $nccl.socketInterface)
  (dict "name" "GLOO_SOCKET_IFNAME" "value" $nccl.socketInterface) -}}
{{- if ne .Values.network.mode "none" -}}
{{- $environment = concat (list
  (dict "name" "BASH_ENV" "value" $nccl.environmentScript)
  (dict "name" "NCCL_NET" "value" $nccl.net)
  (dict "name" "NCCL_TUNER_CONFIG_PATH" "value" $nccl.tunerConfig)) $environment -}}
{{- end -}}
{{- toJson $environment -}}
{{- end }}

{{/* common.wiring.volumes: driver folders of the node and /dev/shm, as JSON {volumes, mounts, hostMounts}. type Directory: without it a
     missing folder is created empty and hides the driver. GKE's nodes alone have these folders. The folder of the RDMA plugin, which holds its script, is left out where there
     is no RDMA.                                                  include "common.wiring.volumes" $ | fromJson */}}
{{- define "common.wiring.volumes" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $volumes := list (dict "name" "shared-memory" "emptyDir" (dict "medium" "Memory" "sizeLimit" (include "common.quantity" $accelerator.sharedMemory))) -}}
{{- $mounts := list -}}
{{- $paths := ternary (include "common.entries" $accelerator.hostPaths | fromJson) dict (ne (include "common.isGoogle" .) "") -}}
{{- range $name := keys $paths | sortAlpha -}}
{{- $path := get $paths $name -}}
{{- $ofPlugin := hasPrefix (printf "%s/" $path.mountPath) $accelerator.nccl.environmentScript -}}
{{- if not (and $ofPlugin (eq $.Values.network.mode "none")) -}}
{{- $volumes = append $volumes (dict "name" (printf "host-%s" $name) "hostPath" (dict "path" $path.hostPath "type" "Directory")) -}}
{{- $mounts = append $mounts (dict "name" (printf "host-%s" $name) "mountPath" $path.mountPath "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- dict "volumes" $volumes "hostMounts" $mounts "mounts" (append $mounts (dict "name" "shared-memory" "mountPath" "/dev/shm")) | toJson -}}
{{- end }}
