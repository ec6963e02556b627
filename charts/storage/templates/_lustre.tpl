{{/*
Managed Lustre.

call                                                            returns
include "storage.lustreHandle" (list $ "data" $volume.lustre)   volume handle of an existing instance
include "storage.checkLustreSize" (list "data" "18000Gi" "500") nothing; fails where the tier has no such size
*/}}

{{/* storage.lustreHandle (list $ NAME LUSTRE): PROJECT/LOCATION/INSTANCE. NAME is the volume's. */}}
{{- define "storage.lustreHandle" -}}
{{- if ne (len .) 3 }}{{ fail "storage.lustreHandle takes (list $ NAME LUSTRE)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $lustre := index . 2 -}}
{{- $project := $lustre.project | default $root.Values.platform.projectId -}}
{{- if not $project -}}
{{- fail (printf (print "storage.%s.lustre needs the project of the instance: set platform.projectId, or "
  "storage.%s.lustre.project") $name $name) -}}
{{- end -}}
{{- printf "%s/%s/%s" $project $lustre.location $lustre.instance -}}
{{- end }}

{{/* storage.checkLustreSize (list NAME SIZE TIER): the driver would say so only after the install. */}}
{{- define "storage.checkLustreSize" -}}
{{- if ne (len .) 3 }}{{ fail "storage.checkLustreSize takes (list NAME SIZE TIER)" }}{{ end -}}
{{- $name := index . 0 -}}{{- $size := index . 1 -}}{{- $tier := index . 2 -}}
{{- $step := get (dict "125" 72000 "250" 36000 "500" 18000 "1000" 9000) $tier -}}
{{- if not (hasSuffix "Gi" $size) -}}
{{- fail (printf "storage.%s.pvc.size is %s, but sizes of Managed Lustre are in Gi: write %dGi, for instance"
  $name $size $step) -}}
{{- end -}}
{{- $gib := trimSuffix "Gi" $size | int64 -}}
{{- if mod $gib $step -}}
{{- $above := mul (add1 (div $gib $step)) $step -}}
{{- fail (printf (print "storage.%s.pvc.size is %s, but the tier of %s MBps a TiB has sizes in steps of %dGi: write "
  "%dGi, the next one") $name $size $tier $step $above) -}}
{{- end -}}
{{- end }}
