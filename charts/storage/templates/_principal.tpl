{{/* storage.principal: IAM member that stands for the pods' service account; empty without platform.projectId and projectNumber.
                                                                  include "storage.principal" $ */}}
{{- define "storage.principal" -}}
{{- $platform := .Values.platform -}}
{{- if and (include "common.isGoogle" .) $platform.projectId $platform.projectNumber }}{{ include "storage.member" (list . $platform.projectId $platform.projectNumber) }}{{ end -}}
{{- end }}

{{/* storage.member: the same for any project.                    include "storage.member" (list $ "my-project" "123456789012") */}}
{{- define "storage.member" -}}
{{- $root := index . 0 -}}
principal://iam.googleapis.com/projects/{{ index . 2 }}/locations/global/workloadIdentityPools/{{ index . 1 }}.svc.id.goog/subject/ns/{{ $root.Release.Namespace }}/sa/{{ include "common.name" (list $root "serviceAccount") }}
{{- end }}
