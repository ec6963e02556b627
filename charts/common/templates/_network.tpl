{{/*
How a worker pod reaches the GPU network: interfaces (multiNetwork) or device claims (dranet).

call                                                    returns
include "common.interfaces" $ | fromJsonArray           interfaces besides eth0: {interface, base, network, deviceMode}
include "common.rdmaInterfaces" $ | fromJsonArray       those with deviceMode RDMA
include "common.wiring.annotations" $ | fromJson        annotations by which GKE attaches the interfaces
include "common.wiring.claims" $ | fromJsonArray        entries of spec.resourceClaims of a pod on a GPU node
include "common.claimTemplateName" $                    the name of the ResourceClaimTemplate
include "common.claimTemplate.spec" $                   spec of the ResourceClaimTemplate, as YAML
*/}}

{{/* common.interfaces $: in the order of their numbers (eth10 after eth9). base is the profile's name of the network,
     network the name of the Network object. */}}
{{- define "common.interfaces" -}}
{{- if not (hasKey . "common.interfaces") -}}
{{- $interfaces := include "common.entries" .Values.accelerator.interfaces | fromJson -}}
{{- $sorted := list -}}{{- $joined := dict -}}
{{- range $i := until 100 -}}
{{- $name := printf "eth%d" $i -}}
{{- if hasKey $interfaces $name -}}
{{- $entry := get $interfaces $name -}}
{{- $network := $entry.network -}}
{{- if hasKey $joined $network -}}
{{- fail (printf "accelerator.interfaces.%s joins network %s, as %s does. Give each interface its own network"
  $name $network (get $joined $network)) -}}
{{- end -}}
{{- $_ := set $joined $network $name -}}
{{- $object := printf "%s%s" $.Values.network.names.prefix $network -}}
{{- $named := dict "interface" $name "base" $network "network" $object -}}
{{- $sorted = append $sorted (include "common.merge" (list $entry $named) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "common.interfaces" (toJson $sorted) -}}
{{- end -}}
{{- get . "common.interfaces" -}}
{{- end }}

{{/* common.rdmaInterfaces $: the interfaces that NCCL uses. */}}
{{- define "common.rdmaInterfaces" -}}
{{- $rdma := list -}}
{{- range include "common.interfaces" . | fromJsonArray -}}
{{- if eq .deviceMode "RDMA" }}{{ $rdma = append $rdma . }}{{ end -}}
{{- end -}}
{{- toJson $rdma -}}
{{- end }}

{{/* common.wiring.annotations $: the list of interfaces is JSON in a string. Empty in the other network modes. */}}
{{- define "common.wiring.annotations" -}}
{{- $annotations := dict -}}
{{- if eq .Values.network.mode "multiNetwork" -}}
{{- $list := list (dict "interfaceName" "eth0" "network" "default") -}}
{{- range include "common.interfaces" . | fromJsonArray -}}
{{- $list = append $list (dict "interfaceName" .interface "network" .network) -}}
{{- end -}}
{{- $annotations = dict
  "networking.gke.io/default-interface" "eth0"
  "networking.gke.io/interfaces" (toJson $list) -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{/* common.wiring.claims $: all RDMA devices (dranet), and the channel of the NVLink domain where it spans nodes.
     */}}
{{- define "common.wiring.claims" -}}
{{- $claims := list -}}
{{- if eq .Values.network.mode "dranet" -}}
{{- $claims = append $claims (dict "name" "rdma" "resourceClaimTemplateName" (include "common.claimTemplateName" .)) -}}
{{- end -}}
{{- if .Values.accelerator.nvlinkDomainNodes -}}
{{- $claims = append $claims (dict "name" "nvlink" "resourceClaimTemplateName" (include "common.nvlink.name" .)) -}}
{{- end -}}
{{- toJson $claims -}}
{{- end }}

{{/* common.claimTemplateName $: the template lies beside the pods, so it carries their owner's name. */}}
{{- define "common.claimTemplateName" -}}
{{- printf "%s-rdma" (include "common.owner" .) -}}
{{- end }}

{{/* common.claimTemplate.spec $: each pod takes all RDMA devices of its node. On an older cluster Helm's own words
     would ask for a definition to install. */}}
{{- define "common.claimTemplate.spec" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- if and ($served.Has "ray.io/v1/RayCluster") (not ($served.Has "resource.k8s.io/v1/ResourceClaimTemplate")) -}}
{{- fail (print "network.mode is dranet, which needs Kubernetes 1.34 or newer, but the APIs in this cluster are older: "
  "they have no resource.k8s.io/v1. Update the cluster, or set network.mode to multiNetwork") -}}
{{- end -}}
spec:
  devices:
    requests:
      - name: rdma
        exactly:
          deviceClassName: mrdma.google.com
          allocationMode: ExactCount
          count: {{ include "common.rdmaInterfaces" . | fromJsonArray | len }}
{{- end }}
