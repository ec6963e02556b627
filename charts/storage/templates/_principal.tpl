{{/* storage.principal: IAM member that stands for the pods' service account; empty without platform.projectId and projectNumber.
                                                                  include "storage.principal" $ */}}
{{- define "storage.principal" -}}
{{- $platform := .Values.platform -}}
{{- if and $platform.projectId $platform.projectNumber -}}
principal://iam.googleapis.com/projects/{{ $platform.projectNumber }}/locations/global/workloadIdentityPools/{{ $platform.projectId }}.svc.id.goog/subject/ns/{{ .Release.Namespace }}/sa/{{ include "common.name" (list . "serviceAccount") }}
{{- end -}}
{{- end }}
