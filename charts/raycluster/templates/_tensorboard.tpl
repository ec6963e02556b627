{{/*
TensorBoard beside the cluster (tracking.tensorboard.server).

call                                            returns
include "raycluster.tensorboard.name" $         the name of the Deployment and its Service
include "raycluster.tensorboard.pod" $          its pod spec, as YAML
include "raycluster.tensorboard.annotations" $  annotations of its pod, as JSON; empty where there are none
*/}}

{{/* raycluster.tensorboard.name $: one for each stack. */}}
{{- define "raycluster.tensorboard.name" -}}{{ .Values.stack.name }}-tensorboard{{- end }}

{{/* raycluster.tensorboard.pod $: it mounts the one volume that holds the runs, read-only, and needs no right but to
     read. */}}
{{- define "raycluster.tensorboard.pod" -}}
{{- $server := .Values.tracking.tensorboard.server -}}
{{- $mount := include "common.mountPath" (list . "tracking.tensorboard.server.volume" $server.volume) -}}
{{- $volume := get (include "common.volumes" . | fromJson) $server.volume -}}
{{- if hasKey $volume "ephemeral" -}}
{{- fail (printf (print "tracking.tensorboard.server.volume is %q, which is local disk of each pod: name the volume "
  "that holds the runs") $server.volume) -}}
{{- end -}}
{{- $amounts := dict "cpu" $server.cpu "memory" $server.memory "ephemeralStorage" "1Gi" -}}
{{- $bare := include "common.bareSecurityContext" . | fromJson -}}
{{ include "raycluster.scheduling" . | fromJson | toYaml }}
automountServiceAccountToken: false
containers:
  - name: tensorboard
    image: {{ include "common.image" . | quote }}
    imagePullPolicy: IfNotPresent
    command: [python3, -m, tensorboard.main]
    args: ["--logdir={{ $mount }}/runs", --bind_all, --port=6006]
    ports:
      - {name: http, containerPort: 6006}
    readinessProbe:
      tcpSocket: {port: http}
    resources:
      {{- include "common.resources" $amounts | nindent 6 }}
    securityContext: {{ include "common.merge" (list $bare (dict "readOnlyRootFilesystem" true)) }}
    volumeMounts:
      - {name: {{ $server.volume | quote }}, mountPath: {{ $volume.mountPath | quote }}, readOnly: true}
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: {{ $server.volume | quote }}
    persistentVolumeClaim:
      claimName: {{ include "common.claimName" (list . $server.volume) | quote }}
  - name: tmp
    emptyDir: {sizeLimit: 1Gi}
  {{- with include "common.cacheVolume" . | fromJson }}
  - {{ toJson . }}
  {{- end }}
{{- end }}

{{/* raycluster.tensorboard.annotations $: where it reads from a bucket, those of a bucket's pod. */}}
{{- define "raycluster.tensorboard.annotations" -}}
{{- $volumes := include "common.volumes" . | fromJson -}}
{{- if include "common.isBucket" (get $volumes .Values.tracking.tensorboard.server.volume | default dict) -}}
{{- include "common.gcsfuseAnnotations" . -}}
{{- end -}}
{{- end }}
