{{/*
How a worker pod reaches the GPU network: interfaces (multiNetwork), device claims (dranet) or the resources of a device
plugin (devices). The profile says what the machine has for each.

call                                                    returns
include "common.interfaces" $ | fromJsonArray           interfaces besides eth0: {interface, base, network, deviceMode}
include "common.rdmaInterfaces" $ | fromJsonArray       those with deviceMode RDMA
include "common.wiring.annotations" $ | fromJson        annotations by which interfaces are attached
include "common.wiring.resources" $ | fromJson          resources of Ray's container, by name
include "common.usesHostNetwork" $                      "yes" where the pod has the network of its node, else ""
include "common.wiring.claims" $ | fromJsonArray        entries of spec.resourceClaims of a pod on a GPU node
include "common.claimedDevices" $ | fromJson            accelerator.claims where network.mode is dranet
include "common.claimTemplateName" (list $ "rdma")      the name of a claim's ResourceClaimTemplate
include "common.claimTemplate.spec" (list $ "rdma" $claim)    spec of a ResourceClaimTemplate, as YAML
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

{{/* common.wiring.annotations $: those of the profile, and the list of interfaces, which is JSON in a string. */}}
{{- define "common.wiring.annotations" -}}
{{- $annotations := dict -}}
{{- if ne .Values.network.mode "none" -}}
{{- $annotations = include "common.entries" (.Values.accelerator.annotations | default dict) | fromJson -}}
{{- end -}}
{{- if eq .Values.network.mode "multiNetwork" -}}
{{- $list := list (dict "interfaceName" "eth0" "network" "default") -}}
{{- range include "common.interfaces" . | fromJsonArray -}}
{{- $list = append $list (dict "interfaceName" .interface "network" .network) -}}
{{- end -}}
{{- $keys := .Values.platform.keys -}}
{{- $annotations = merge $annotations (dict $keys.defaultInterface "eth0" $keys.interfaces (toJson $list)) -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{/* common.wiring.resources $: a device plugin gives the container the devices of its requests. */}}
{{- define "common.wiring.resources" -}}
{{- $resources := dict -}}
{{- if eq .Values.network.mode "devices" -}}
{{- $resources = include "common.entries" (.Values.accelerator.resources | default dict) | fromJson -}}
{{- end -}}
{{- toJson $resources -}}
{{- end }}

{{/* common.usesHostNetwork $: some clusters give RDMA only to pods in the network of the node. */}}
{{- define "common.usesHostNetwork" -}}
{{- if and .Values.accelerator.hostNetwork (ne .Values.network.mode "none") }}yes{{ end -}}
{{- end }}

{{/* common.claimedDevices $: the network devices that a pod claims, by the claim's name. */}}
{{- define "common.claimedDevices" -}}
{{- $claims := dict -}}
{{- if eq .Values.network.mode "dranet" -}}
{{- $claims = include "common.entries" (.Values.accelerator.claims | default dict) | fromJson -}}
{{- end -}}
{{- toJson $claims -}}
{{- end }}

{{/* common.wiring.claims $: the network devices, and the channel of the NVLink domain where it spans nodes. */}}
{{- define "common.wiring.claims" -}}
{{- $claims := list -}}
{{- range $name, $_ := include "common.claimedDevices" . | fromJson -}}
{{- $template := include "common.claimTemplateName" (list $ $name) -}}
{{- $claims = append $claims (dict "name" $name "resourceClaimTemplateName" $template) -}}
{{- end -}}
{{- if .Values.accelerator.nvlinkDomainNodes -}}
{{- $claims = append $claims (dict "name" "nvlink" "resourceClaimTemplateName" (include "common.nvlink.name" .)) -}}
{{- end -}}
{{- toJson $claims -}}
{{- end }}

{{/* common.claimTemplateName (list $ CLAIM): the template lies beside the pods, so it carries their owner's name. */}}
{{- define "common.claimTemplateName" -}}
{{- if ne (len .) 2 }}{{ fail "common.claimTemplateName takes (list $ CLAIM)" }}{{ end -}}
{{- printf "%s-%s" (include "common.owner" (index . 0)) (index . 1) -}}
{{- end }}

{{/* common.claimTemplate.spec (list $ NAME CLAIM): each pod takes all network devices of its node. On an older cluster
     Helm's own words would ask for a definition to install. */}}
{{- define "common.claimTemplate.spec" -}}
{{- if ne (len .) 3 }}{{ fail "common.claimTemplate.spec takes (list $ NAME CLAIM)" }}{{ end -}}
{{- $name := index . 1 -}}{{- $claim := index . 2 -}}
{{- $served := (index . 0).Capabilities.APIVersions -}}
{{- if and ($served.Has "ray.io/v1/RayCluster") (not ($served.Has "resource.k8s.io/v1/ResourceClaimTemplate")) -}}
{{- fail (print "network.mode is dranet, which needs Kubernetes 1.34 or newer, but the APIs in this cluster are older: "
  "they have no resource.k8s.io/v1. Update the cluster, or choose another network.mode") -}}
{{- end -}}
spec:
  devices:
    requests:
      - name: {{ $name }}
        exactly:
          deviceClassName: {{ $claim.deviceClass }}
          allocationMode: ExactCount
          count: {{ int64 $claim.count }}
          {{- with $claim.selector }}
          selectors:
            - cel: {expression: {{ toJson . }}}
          {{- end }}
    {{- with $claim.matchAttribute }}
    constraints:
      - requests: [{{ $name }}]
        matchAttribute: {{ . }}
    {{- end }}
{{- end }}
