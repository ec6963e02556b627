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

{{/* common.wiring.claims: the claims of a pod that takes a GPU node, as JSON list for spec.resourceClaims: all RDMA devices where they
     come that way, and the channel of the NVLink domain where it spans nodes.
                                                                  include "common.wiring.claims" $ | fromJsonArray */}}
{{- define "common.wiring.claims" -}}
{{- $claims := list -}}
{{- if eq .Values.network.mode "dranet" -}}
{{- $claims = append $claims (dict "name" "rdma" "resourceClaimTemplateName" (include "common.claimTemplateName" .)) -}}
{{- end -}}
{{- if .Values.accelerator.nvlinkDomainNodes -}}
{{- $claims = append $claims (dict "name" "nvlink" "resourceClaimTemplateName" (include "common.computeDomainName" .)) -}}
{{- end -}}
{{- toJson $claims -}}
{{- end }}

{{/* common.claimTemplateName: name of the ResourceClaimTemplate beside the pods.
                                                                  include "common.claimTemplateName" $ */}}
{{- define "common.claimTemplateName" -}}
{{- printf "%s-rdma" (include "common.owner" .) -}}
{{- end }}

{{/* common.claimTemplate: the ResourceClaimTemplate as a document, for the chart that owns the pods; nothing where the charts do not wire.
                                                                  include "common.claimTemplate" $ */}}
{{- define "common.claimTemplate" -}}
{{- $devices := include "common.rdmaInterfaces" . | fromJsonArray | len -}}
{{- if .Values.stack.wiring.enabled -}}
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {{ include "common.claimTemplateName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
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
            count: {{ $devices }}
{{- end -}}
{{- end }}

{{/* common.computeDomain: the NVLink domain of the stack as a document, for the chart that owns the pods; nothing where NVLink ends at
     the node or the charts do not wire. NVIDIA's DRA driver makes the claim template that the pods name.
                                                                  include "common.computeDomain" $ */}}
{{- define "common.computeDomain" -}}
{{- with .Values.accelerator.nvlinkDomainNodes -}}
{{- $nodes := include "common.domainNodes" $ | int64 -}}
{{- if gt $nodes (int64 .) -}}
{{- fail (printf "the cluster has %d GPU nodes, and an NVLink domain of %s has %d at most: lower ray.workers.replicas" $nodes $.Values.accelerator.name (int64 .)) -}}
{{- end -}}
{{- if $.Values.stack.wiring.enabled -}}
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata:
  name: {{ include "common.computeDomainName" $ | quote }}
  namespace: {{ $.Release.Namespace | quote }}
  labels:
    {{- include "common.labels" $ | nindent 4 }}
spec:
  numNodes: {{ $nodes }}
  channel:
    resourceClaimTemplate:
      name: {{ include "common.computeDomainName" $ | quote }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.computeDomainName: name of the ComputeDomain and of its claim template. The spec of a domain is immutable, so that another
     number of nodes is another domain.                           include "common.computeDomainName" $ */}}
{{- define "common.computeDomainName" -}}
{{- printf "%s-nvlink-%d" (include "common.owner" .) (include "common.domainNodes" . | int64) -}}
{{- end }}

{{/* common.domainNodes: GPU nodes of the cluster that this chart makes; a task's own cluster has no node more than it needs.
                                                                  include "common.domainNodes" $ | int64 */}}
{{- define "common.domainNodes" -}}
{{- $replicas := .Values.ray.workers.replicas -}}
{{- if eq .Chart.Name "grpo-job" }}{{ $replicas = include "grpo.ephemeralReplicas" . }}{{ end -}}
{{- add (int64 $replicas) (ternary 1 0 .Values.ray.head.gpus.enabled) -}}
{{- end }}
