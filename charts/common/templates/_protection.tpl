{{/*
Who may reach or evict the pods of a Ray cluster. Both charts with pods have these objects.

call                                            returns
include "common.networkPolicy.spec" $           spec of the NetworkPolicy of head and workers, as YAML
include "common.disruptionBudget.spec" $        spec of their PodDisruptionBudget, as YAML
*/}}

{{/* common.networkPolicy.spec $: the operator submits and watches jobs at 8265. The policy names its namespace and
     not its pods, because Helm and kustomize installations label them differently. The pods of helm test, which only
     the raycluster chart has, submit jobs too. */}}
{{- define "common.networkPolicy.spec" -}}
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
{{- end }}

{{/* common.disruptionBudget.spec $: no pod may be evicted. minAvailable is a number, because Kubernetes computes no
     percentage for pods of a custom controller. */}}
{{- define "common.disruptionBudget.spec" -}}
minAvailable: {{ add1 (int64 .Values.ray.workers.replicas) }}
selector:
  matchLabels:
    grpo-charts/owner: {{ include "common.owner" . | quote }}
{{- end }}
