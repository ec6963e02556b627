{{/* common.raycluster.spec: spec of a RayCluster, as YAML, for the raycluster chart and for ephemeral jobs. It is written in the
     operator's own form (numOfHosts, scaleStrategy, canonical quantities): otherwise the operator's first write of a RayJob takes
     over workerGroupSpecs, and the next server-side apply conflicts with it.
                                                                  include "common.raycluster.spec" (list $ 2 WIRED) */}}
{{- define "common.raycluster.spec" -}}
{{- if ne (len .) 3 }}{{ fail "common.raycluster.spec takes (list $ REPLICAS WIRED)" }}{{ end -}}
{{- $replicas := index . 1 | int64 -}}{{- $wired := index . 2 -}}
{{- with index . 0 -}}
{{- include "common.checkAutopilot" . -}}
rayVersion: {{ .Values.images.training.rayVersion | quote }}
enableInTreeAutoscaling: false
{{- if .Values.ray.tokenAuth.enabled }}
{{- include "common.checkTokenAuth" . }}
authOptions:
  mode: token
{{- end }}
headGroupSpec:
  rayStartParams:
    dashboard-host: 0.0.0.0
    # A head without GPUs has not the network of the workers either: by default no actor may land on it.
    num-cpus: {{ include "common.headCpus" . | quote }}
    # The monitor has removed workers that it found too many, with autoscaling off.
    no-monitor: "true"
    num-gpus: {{ ternary (int64 .Values.accelerator.gpusPerNode) 0 .Values.ray.head.gpus.enabled | quote }}
  template:
    {{- include "common.pod.head" (list . $wired) | fromJson | toYaml | nindent 4 }}
{{- if not $replicas }}
workerGroupSpecs: []
{{- else }}
workerGroupSpecs:
  - groupName: gpu
    # The size is fixed. Equal numbers keep KubeRay's autoscaler and its clamping out of it.
    replicas: {{ $replicas }}
    minReplicas: {{ $replicas }}
    maxReplicas: {{ $replicas }}
    numOfHosts: 1
    scaleStrategy: {}
    rayStartParams:
      num-gpus: {{ int64 .Values.accelerator.gpusPerNode | quote }}
    template:
      {{- include "common.pod.worker" (list . $wired) | fromJson | toYaml | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{/* common.checkTokenAuth: fail where Ray knows no token; the operator would say so in an event only.
                                                                  include "common.checkTokenAuth" $ */}}
{{- define "common.checkTokenAuth" -}}
{{- $version := .Values.images.training.rayVersion -}}
{{- if semverCompare "<2.52.0" $version -}}
{{- fail (printf "ray.tokenAuth needs Ray 2.52.0 or newer, and images.training has %s: switch it off, or choose a newer image" $version) -}}
{{- end -}}
{{- end }}
