{{/* common.networkPolicy: who may reach the pods, as a document; nothing where it is off. The operator submits and watches jobs at 8265;
     its namespace is named and not its pods, because Helm and kustomize installations label them differently. The pods of helm test,
     which the raycluster chart has, submit jobs too.
                                                                  include "common.networkPolicy" $ */}}
{{- define "common.networkPolicy" -}}
{{- if .Values.ray.networkPolicy.enabled -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "common.owner" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      grpo-charts/owner: {{ include "common.owner" . | quote }}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              grpo-charts/owner: {{ include "common.owner" . | quote }}
    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: {{ .Values.ray.networkPolicy.operatorNamespace | quote }}
        {{- if eq .Chart.Name "raycluster" }}
        - podSelector:
            matchLabels:
              grpo-charts/test: {{ include "common.owner" . | quote }}
        {{- end }}
      ports:
        - port: 8265
          protocol: TCP
{{- end -}}
{{- end }}

{{/* common.disruptionBudget: no pod of the cluster may be evicted, as a document; nothing where it is off. A number of pods, because for
     pods of a custom controller Kubernetes knows no share.       include "common.disruptionBudget" $ */}}
{{- define "common.disruptionBudget" -}}
{{- if .Values.ray.disruptionBudget.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "common.owner" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
spec:
  minAvailable: {{ add1 (int64 .Values.ray.workers.replicas) }}
  selector:
    matchLabels:
      grpo-charts/owner: {{ include "common.owner" . | quote }}
{{- end -}}
{{- end }}
