{{/* network.subnet: VPC and subnet of one interface, as JSON {vpc, subnet}. Names not given follow from the prefix.
                                                                  include "network.subnet" (list $ $interface) | fromJson */}}
{{- define "network.subnet" -}}
{{- $root := index . 0 -}}{{- $interface := index . 1 -}}
{{- $section := ternary "rdma" "gvnic" (eq $interface.deviceMode "RDMA") -}}
{{- $settings := get $root.Values.network $section -}}
{{- $subnet := "" -}}{{- $suffix := "sub" -}}
{{- if eq $section "rdma" -}}
{{- $subnet = get (include "common.entries" $settings.subnets | fromJson) $interface.network -}}
{{- $suffix = printf "sub-%s" (regexFind "[0-9]+$" $interface.network) -}}
{{- else -}}
{{- $subnet = $settings.subnet -}}
{{- end -}}
{{- if and (not $settings.prefix) (or (not $settings.vpc) (not $subnet)) -}}
{{- fail (printf "network %s needs a VPC and a subnet: set network.%s.prefix in your site file (VPC <prefix>-net, subnet <prefix>-%s), or name them one by one" $interface.network $section $suffix) -}}
{{- end -}}
{{- dict "vpc" ($settings.vpc | default (printf "%s-net" $settings.prefix)) "subnet" ($subnet | default (printf "%s-%s" $settings.prefix $suffix)) | toJson -}}
{{- end }}
