{{/*
VPC and subnet of each interface.

call                                                returns
include "network.subnet" (list $ $interface) | fromJson    {vpc, subnet} of one interface
include "network.checkSubnets" $                    nothing; fails for a subnet of a network that the machine lacks
*/}}

{{/* network.subnet (list $ INTERFACE): names that are not given follow from the prefix. */}}
{{- define "network.subnet" -}}
{{- if ne (len .) 2 }}{{ fail "network.subnet takes (list $ INTERFACE)" }}{{ end -}}
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
{{- fail (printf (print "accelerator.interfaces.%s joins network %s, which does not end with a number, so its subnet "
  "has no default name: call it rdma-N, or name the subnet under network.rdma.subnets")
  $interface.interface $interface.base) -}}
{{- end -}}
{{- if and (not $settings.prefix) (or (not $settings.vpc) (not $subnet)) -}}
{{- fail (printf (print "network %s needs a VPC and a subnet: set network.%s.prefix in your site file (VPC "
  "<prefix>-net, subnet <prefix>-%s), or name them one by one") $interface.base $section $suffix) -}}
{{- end -}}
{{- dict
  "vpc" ($settings.vpc | default (printf "%s-net" $settings.prefix))
  "subnet" ($subnet | default (printf "%s-%s" $settings.prefix $suffix)) | toJson -}}
{{- end }}

{{/* network.checkSubnets $: such a subnet would have no effect. */}}
{{- define "network.checkSubnets" -}}
{{- $networks := list -}}
{{- range include "common.rdmaInterfaces" . | fromJsonArray }}{{ $networks = append $networks .base }}{{ end -}}
{{- range $network, $_ := include "common.entries" .Values.network.rdma.subnets | fromJson -}}
{{- if not (has $network $networks) -}}
{{- fail (printf (print "network.rdma.subnets.%s: the machine has no RDMA network with that name (it has: %s). "
  "Correct the name") $network (join ", " $networks)) -}}
{{- end -}}
{{- end -}}
{{- end }}
