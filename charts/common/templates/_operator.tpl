{{/*
The operator that the cluster runs, as far as its definitions tell.

call                                                                        returns
include "common.checkOperator" (list $ "ray.upgrade" "recreate" "manual")   nothing; fails where it is too old for that
*/}}

{{/* common.checkOperator (list $ KEY VALUE INSTEAD): KubeRay 1.6 brings a field that VALUE of KEY needs, and the kind
     RayCronJob. On an older one, Helm 4 fails with the words of the schema, and Helm 3 installs the object without the
     field. A render that sees no kind of Ray's has no cluster to judge. */}}
{{- define "common.checkOperator" -}}
{{- if ne (len .) 4 }}{{ fail "common.checkOperator takes (list $ KEY VALUE INSTEAD)" }}{{ end -}}
{{- $key := index . 1 -}}
{{- $served := (index . 0).Capabilities.APIVersions -}}
{{- if and ($served.Has "ray.io/v1/RayCluster") (not ($served.Has "ray.io/v1/RayCronJob")) -}}
{{- $token := "" -}}
{{- if (index . 0).Values.ray.tokenAuth.enabled -}}
{{- $token = ". KubeRay 1.5.0 or older knows no token either, and needs ray.tokenAuth.enabled: false" -}}
{{- end -}}
{{- fail (printf (print "%s is %v, which needs KubeRay 1.6 or newer, but the definitions in this cluster are older: "
  "they have no RayCronJob. Update the operator and its definitions, or set %s to %s%s")
  $key (index . 2) $key (index . 3) $token) -}}
{{- end -}}
{{- end }}
