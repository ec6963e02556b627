{{/*
What stays when the release is uninstalled.

call                                    returns
include "storage.left" $                its objects as words for kubectl; empty where the release makes none of them
include "storage.volumeName" (list $ "data")    the name of a static PersistentVolume
*/}}

{{/* storage.left $: claims before their volumes. */}}
{{- define "storage.left" -}}
{{- $claims := list -}}{{- $volumes := list -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- if not (or $volume.existingClaim $volume.ephemeral) -}}
{{- $claims = append $claims (printf "pvc/%s" (include "common.claimName" (list $ $name))) -}}
{{- end -}}
{{- if or $volume.gcsfuse $volume.lustre -}}
{{- $volumes = append $volumes (printf "pv/%s" (include "storage.volumeName" (list $ $name))) -}}
{{- end -}}
{{- end -}}
{{- $account := list -}}
{{- if not .Values.stack.names.serviceAccount -}}
{{- $account = list (printf "serviceaccount/%s" (include "common.name" (list . "serviceAccount"))) -}}
{{- end -}}
{{- concat $claims $volumes $account | join " " -}}
{{- end }}

{{/* storage.volumeName (list $ VOLUME): cluster-scoped, so it begins with the namespace. */}}
{{- define "storage.volumeName" -}}
{{- if ne (len .) 2 }}{{ fail "storage.volumeName takes (list $ VOLUME)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s" $root.Release.Namespace $root.Values.stack.name (index . 1) -}}
{{- end }}
