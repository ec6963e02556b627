{{/* storage.lustreHandle: volume handle of an instance that exists, PROJECT/LOCATION/INSTANCE.
                                                                  include "storage.lustreHandle" (list $ "data" $volume.lustre) */}}
{{- define "storage.lustreHandle" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $lustre := index . 2 -}}
{{- $project := $lustre.project | default $root.Values.platform.projectId -}}
{{- if not $project }}{{ fail (printf "storage.%s.lustre needs the project of the instance: set platform.projectId, or storage.%s.lustre.project" $name $name) }}{{ end -}}
{{- printf "%s/%s/%s" $project $lustre.location $lustre.instance -}}
{{- end }}

{{/* storage.checkLustreSize: fail where the tier has no instance of this size; the driver says so only after the install.
                                                                  include "storage.checkLustreSize" (list "data" "18000Gi" "500") */}}
{{- define "storage.checkLustreSize" -}}
{{- $name := index . 0 -}}{{- $size := index . 1 -}}{{- $tier := index . 2 -}}
{{- $step := get (dict "125" 72000 "250" 36000 "500" 18000 "1000" 9000) $tier -}}
{{- if not (hasSuffix "Gi" $size) }}{{ fail (printf "storage.%s.pvc.size is %s: Managed Lustre is measured in GiB, write it so (for instance %dGi)" $name $size $step) }}{{ end -}}
{{- $gib := trimSuffix "Gi" $size | int64 -}}
{{- if mod $gib $step -}}
{{- $above := mul (add1 (div $gib $step)) $step -}}
{{- fail (printf "storage.%s.pvc.size is %s: the tier of %s MBps a TiB has sizes in steps of %dGi; the next one is %dGi" $name $size $tier $step $above) -}}
{{- end -}}
{{- end }}
