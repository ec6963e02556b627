{{/*
The operator that the cluster runs, as far as its definitions tell.

call                                                    returns
include "raycluster.checkOperator" $                    nothing; fails where it is too old for ray.upgrade
*/}}

{{/* raycluster.checkOperator $: KubeRay 1.6 brings upgradeStrategy, and the kind RayCronJob. On an older one, Helm 4
     fails with the words of the schema, and Helm 3 installs the cluster without the field. A render that sees no kind
     of Ray's has no cluster to judge. */}}
{{- define "raycluster.checkOperator" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- $isOld := and ($served.Has "ray.io/v1/RayCluster") (not ($served.Has "ray.io/v1/RayCronJob")) -}}
{{- if and $isOld (ne .Values.ray.upgrade "manual") -}}
{{- fail (printf (print "ray.upgrade is %s, which needs KubeRay 1.6 or newer, but the definitions in this cluster are "
  "older: they have no RayCronJob. Update the operator and its definitions, or set ray.upgrade to manual: a changed "
  "image or environment then reaches the pods only when you delete them") .Values.ray.upgrade) -}}
{{- end -}}
{{- end }}
