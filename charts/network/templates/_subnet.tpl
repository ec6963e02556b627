{{/* network.subnet: VPC and subnet of one interface, as JSON {vpc, subnet}. Names not given follow from the prefix.
                                                                  include "network.subnet" (list $ $interface) | fromJson */}}
{{- define "network.subnet" -}}
{{- $root := index . 0 -}}{{- $interface := index . 1 -}}
{{- $section := ternary "rdma" "gvnic" (eq $interface.deviceMode "RDMA") -}}
{{- $settings := get $root.Values.network $section -}}
{{- $subnet := "" -}}{{- $suffix := "sub" -}}
{{- if eq $section "rdma" -}}
{{- $subnet = get (include "common.entries" $settings.subnets | fromJson) $interface.base -}}
{{- $suffix = printf "sub-%s" (regexFind "[0-9]+$" $interface.base) -}}
{{- else -}}
{{- $subnet = $settings.subnet -}}
{{- end -}}
{{- if and (eq $suffix "sub-") (not $subnet) -}}
{{- fail (printf "network %s of %s has no number at its end, from which a subnet could be named: call it rdma-N in accelerator.interfaces" $interface.base $interface.interface) -}}
{{- end -}}
{{- if and (not $settings.prefix) (or (not $settings.vpc) (not $subnet)) -}}
{{- fail (printf "network %s needs a VPC and a subnet: set network.%s.prefix in your site file (VPC <prefix>-net, subnet <prefix>-%s), or name them one by one" $interface.base $section $suffix) -}}
{{- end -}}
{{- dict "vpc" ($settings.vpc | default (printf "%s-net" $settings.prefix)) "subnet" ($subnet | default (printf "%s-%s" $settings.prefix $suffix)) | toJson -}}
{{- end }}

{{/* network.checkSubnets: fail where a subnet is named for a network that the machine does not have.
                                                                  include "network.checkSubnets" $ */}}
{{- define "network.checkSubnets" -}}
{{- $networks := list -}}
{{- range include "common.rdmaInterfaces" . | fromJsonArray }}{{ $networks = append $networks .base }}{{ end -}}
{{- range $network, $_ := include "common.entries" .Values.network.rdma.subnets | fromJson -}}
{{- if not (has $network $networks) -}}
{{- fail (printf "network.rdma.subnets.%s: the machine has no RDMA network of that name (it has: %s)" $network (join ", " $networks)) -}}
{{- end -}}
{{- end -}}
{{- end }}
