{{/* common.pod.head: pod template of the Ray head, as JSON. It has no GPU and keeps away from GPU nodes, where it would take the place
     of a worker.                                                 include "common.pod.head" $ | fromJson */}}
{{- define "common.pod.head" -}}
{{- $storage := include "common.podVolumes" . | fromJson -}}
{{- $environment := concat (include "common.environment" . | fromJsonArray) (include "common.userEnvironment" (list . "head") | fromJsonArray) -}}
{{- $environment = append $environment (dict "name" "GRPO_CLUSTER_FACTS" "value" (include "common.facts" .)) -}}
{{- $head := .Values.ray.head -}}
{{- $template := include "common.pod.headText" (dict "root" . "storage" $storage "environment" $environment "head" $head) | fromYaml -}}
{{- include "common.overlay" (list $template $head) -}}
{{- end }}

{{- define "common.pod.headText" -}}
metadata:
  labels:
    grpo-charts/stack: {{ .root.Values.stack.name }}
    grpo-charts/part: head
  annotations: {{ toJson .storage.annotations }}
spec:
  serviceAccountName: {{ include "common.name" (list .root "serviceAccount") }}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: cloud.google.com/gke-accelerator
                operator: DoesNotExist
  containers:
    - name: ray-head
      image: {{ include "common.image" .root | quote }}
      imagePullPolicy: IfNotPresent
      env: {{ toJson .environment }}
      resources:
        {{- include "common.resources" .head | nindent 8 }}
      volumeMounts: {{ toJson .storage.mounts }}
  volumes: {{ toJson .storage.volumes }}
{{- end }}
