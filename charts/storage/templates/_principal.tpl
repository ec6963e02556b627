{{/*
The pods' service account as IAM knows it (Workload Identity Federation).

call                                                        returns
include "storage.principal" $                               the IAM member; empty without project ID and number
include "storage.member" (list $ "my-project" "1234567")    the same for any project
include "storage.serviceAgent" $                            GKE's own account in the project, as an IAM member
include "storage.profilePermissions" $                      what GKE needs to scan a bucket and to tune its mounts
*/}}

{{/* storage.principal $: from platform.projectId and platform.projectNumber, on GKE. */}}
{{- define "storage.principal" -}}
{{- $platform := .Values.platform -}}
{{- if and (include "common.isGoogle" .) $platform.projectId $platform.projectNumber -}}
{{- include "storage.member" (list . $platform.projectId $platform.projectNumber) -}}
{{- end -}}
{{- end }}

{{/* storage.member (list $ PROJECT_ID PROJECT_NUMBER): the namespace is the release's. */}}
{{- define "storage.member" -}}
{{- if ne (len .) 3 }}{{ fail "storage.member takes (list $ PROJECT_ID PROJECT_NUMBER)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $account := include "common.name" (list $root "serviceAccount") -}}
{{- $pool := printf "projects/%s/locations/global/workloadIdentityPools/%s.svc.id.goog" (index . 2) (index . 1) -}}
{{- printf "principal://iam.googleapis.com/%s/subject/ns/%s/sa/%s" $pool $root.Release.Namespace $account -}}
{{- end }}

{{/* storage.serviceAgent $: the account with which GKE scans a bucket for a profile. */}}
{{- define "storage.serviceAgent" -}}
{{- $number := .Values.platform.projectNumber | default "PROJECT_NUMBER" -}}
{{- printf "serviceAccount:service-%s@container-engine-robot.iam.gserviceaccount.com" $number -}}
{{- end }}

{{/* storage.profilePermissions $: those of the role gke.gcsfuse.profileUser, which Google's documentation names. */}}
{{- define "storage.profilePermissions" -}}
{{- $caches := list "create" "get" "list" "update" -}}
{{- $permissions := list "storage.objects.list" "storage.buckets.get" -}}
{{- range $caches }}{{ $permissions = append $permissions (printf "storage.anywhereCaches.%s" .) }}{{ end -}}
{{- join "," $permissions -}}
{{- end }}
