{{/*
Who may reach or evict the pods of a Ray cluster. Both charts with pods have these objects.

call                                            returns
include "common.networkPolicy.spec" $           spec of the NetworkPolicy of head and workers, as YAML
include "common.jobApi" $                       the rule of that policy for the job API, as an entry of its ingress
include "common.disruptionBudget.spec" (list $ 2)    spec of their PodDisruptionBudget, as YAML
include "common.stayAnnotations" $ | fromJson   annotations by which an autoscaler leaves the nodes of the pods alone
include "common.notes.access" $                 lines of the NOTES: who may run code on the cluster
*/}}

{{/* common.networkPolicy.spec $: among themselves the pods use any port. Metrics can only be read, so they are open to
     every Prometheus. */}}
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
  - ports:
      - port: 8080
        protocol: TCP
  {{- include "common.jobApi" . | nindent 2 }}
{{- end }}

{{/* common.jobApi $: the operator submits and watches jobs at 8265. Where it runs differs (GKE's add-on has no pod that
     we could name), and a wrong guess stops every job without a message. So the token guards the port, unless the
     values name the operator's namespace. Not its pods: Helm and kustomize label them differently. The pods of the
     raycluster chart's hooks ask at 8265 too. */}}
{{- define "common.jobApi" -}}
{{- $namespace := .Values.ray.networkPolicy.operatorNamespace -}}
{{- if not (or $namespace .Values.ray.tokenAuth.enabled) -}}
{{- fail (print "ray.networkPolicy.operatorNamespace is empty, and ray.tokenAuth.enabled is false: without a token "
  "only the KubeRay operator may reach the job API. Write the namespace of its pod; where it has none that you can see "
  "(GKE's add-on), set ray.networkPolicy.enabled to false") -}}
{{- end -}}
- ports:
    - port: 8265
      protocol: TCP
  {{- with $namespace }}
  from:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ . | quote }}
    {{- if eq $.Chart.Name "raycluster" }}
    - podSelector:
        matchLabels:
          grpo-charts/test: {{ include "common.owner" $ | quote }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* common.disruptionBudget.spec (list $ WORKERS): no pod may be evicted. minAvailable is a number, because Kubernetes
     computes no percentage for pods of a custom controller. */}}
{{- define "common.disruptionBudget.spec" -}}
{{- if ne (len .) 2 }}{{ fail "common.disruptionBudget.spec takes (list $ WORKERS)" }}{{ end -}}
minAvailable: {{ add1 (int64 (index . 1)) }}
selector:
  matchLabels:
    grpo-charts/owner: {{ include "common.owner" (index . 0) | quote }}
{{- end }}

{{/* common.stayAnnotations $: not on Autopilot, where the same annotation buys a longer run time and has its own
     limits. */}}
{{- define "common.stayAnnotations" -}}
{{- $annotations := dict -}}
{{- if and .Values.ray.disruptionBudget.enabled (not (include "common.isAutopilot" .)) -}}
{{- $_ := set $annotations "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end }}

{{/* common.notes.access $: nothing where a token is asked for. */}}
{{- define "common.notes.access" -}}
{{- if not .Values.ray.tokenAuth.enabled }}

Ray asks for no token (ray.tokenAuth.enabled is false): whoever reaches port 8265 runs code on this cluster.
{{- if .Values.ray.networkPolicy.enabled }}
The NetworkPolicy lets only namespace {{ .Values.ray.networkPolicy.operatorNamespace }} in. {{ "" -}}
If the KubeRay operator runs elsewhere, no job starts.
{{- else }}
No NetworkPolicy limits who does: set ray.networkPolicy.enabled and ray.networkPolicy.operatorNamespace.
{{- end }}
{{- end }}
{{- end }}
