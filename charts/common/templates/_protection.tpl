{{/*
Who may reach or evict the pods of a Ray cluster. Both charts with pods have these objects.

call                                            returns
include "common.networkPolicy.spec" $           spec of the NetworkPolicy of head and workers, as YAML
include "common.jobApi" $                       the rule of that policy for the job API, as an entry of its ingress
include "common.egress" $                       its rules for connections of the pods, as YAML
include "common.disruptionBudget.spec" (list $ 2)    spec of their PodDisruptionBudget, as YAML
include "common.stayAnnotations" $ | fromJson   annotations by which an autoscaler leaves the nodes of the pods alone
include "common.notes.access" $                 lines of the NOTES: who may run code on the cluster
*/}}

{{/* common.networkPolicy.spec $: among themselves the pods use any port. Metrics can only be read, so every Prometheus
     of the Kubernetes cluster may. An empty namespaceSelector means all its pods, and no other machine of the VPC. */}}
{{- define "common.networkPolicy.spec" -}}
podSelector:
  matchLabels:
    grpo-charts/owner: {{ include "common.owner" . | quote }}
policyTypes: {{ ternary (list "Ingress" "Egress") (list "Ingress") .Values.ray.networkPolicy.egress.enabled | toJson }}
ingress:
  - from:
      - podSelector:
          matchLabels:
            grpo-charts/owner: {{ include "common.owner" . | quote }}
  - ports:
      - port: 8080
        protocol: TCP
    {{- if eq .Values.ray.networkPolicy.clients "cluster" }}
    from:
      - namespaceSelector: {}
    {{- end }}
  {{- include "common.jobApi" . | nindent 2 }}
{{- if .Values.ray.networkPolicy.egress.enabled }}
egress:
  {{- include "common.egress" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* common.egress $: the hub, trackers and buckets have no fixed addresses, so 443 is open to all public ones. Of the
     link-local addresses: 80 and 988 are the metadata servers of the clouds, by which a pod gets its identity. */}}
{{- define "common.egress" -}}
- to:
    - podSelector:
        matchLabels:
          grpo-charts/owner: {{ include "common.owner" . | quote }}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- to:
    - ipBlock: {cidr: 169.254.0.0/16}
  ports:
    - {port: 80, protocol: TCP}
    - {port: 988, protocol: TCP}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16]}
    - ipBlock: {cidr: '::/0', except: ['fc00::/7', 'fe80::/10']}
  ports:
    - {port: 443, protocol: TCP}
{{- range $name, $target := include "common.entries" .Values.ray.networkPolicy.egress.allow | fromJson }}
{{- if eq (empty $target.cidr) (empty $target.namespace) }}
{{- fail (printf "ray.networkPolicy.egress.allow.%s names no place or two: give either cidr or namespace" $name) }}
{{- end }}
- to:
    {{- with $target.cidr }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
    {{- with $target.namespace }}
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ . | quote }}
    {{- end }}
  {{- with $target.port }}
  ports:
    - {port: {{ int64 . }}, protocol: TCP}
  {{- end }}
{{- end }}
{{- end }}

{{/* common.jobApi $: the operator submits and watches jobs at 8265. Where it runs differs, and a wrong guess stops
     every job without a message. So every pod of the Kubernetes cluster reaches the port, and the token guards it,
     unless the values name the operator's namespace. Not its pods: Helm and kustomize label them differently. GKE's
     add-on has no pod in the cluster. The pods of the raycluster chart's hooks ask at 8265 too. */}}
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
  {{- if and (not $namespace) (eq .Values.ray.networkPolicy.clients "cluster") }}
  from:
    - namespaceSelector: {}
  {{- end }}
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
