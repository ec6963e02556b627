{{/* raycluster.tensorboard.pod: pod spec of TensorBoard, as YAML. It mounts the one volume that holds the runs, read-only, and needs no
     right but to read.                                           include "raycluster.tensorboard.pod" $ */}}
{{- define "raycluster.tensorboard.pod" -}}
{{- $server := .Values.tracking.tensorboard.server -}}
{{- $logs := printf "%s/runs" (include "common.mountPath" (list . "tracking.tensorboard.server.volume" $server.volume)) -}}
{{- $volume := get (include "common.volumes" . | fromJson) $server.volume -}}
{{- if hasKey $volume "ephemeral" -}}
{{- fail (printf "tracking.tensorboard.server.volume is %q, which is local disk of each pod: name the volume that holds the runs" $server.volume) -}}
{{- end -}}
{{ include "raycluster.scheduling" . | fromJson | toYaml }}
containers:
  - name: tensorboard
    image: {{ include "common.image" . | quote }}
    imagePullPolicy: IfNotPresent
    command: [python3, -m, tensorboard.main]
    args: ["--logdir={{ $logs }}", --bind_all, --port=6006]
    ports:
      - {name: http, containerPort: 6006}
    readinessProbe:
      tcpSocket: {port: http}
    resources:
      {{- include "common.resources" (dict "cpu" $server.cpu "memory" $server.memory "ephemeralStorage" "1Gi") | nindent 6 }}
    securityContext: {{ include "common.merge" (list (include "common.bareSecurityContext" . | fromJson) (dict "readOnlyRootFilesystem" true)) }}
    volumeMounts:
      - {name: {{ $server.volume | quote }}, mountPath: {{ $volume.mountPath | quote }}, readOnly: true}
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: {{ $server.volume | quote }}
    persistentVolumeClaim:
      claimName: {{ include "common.claimName" (list . $server.volume) | quote }}
  - name: tmp
    emptyDir: {sizeLimit: 1Gi}
{{- end }}

{{/* raycluster.tensorboard.name: of the Deployment and its Service.  include "raycluster.tensorboard.name" $ */}}
{{- define "raycluster.tensorboard.name" -}}{{ .Values.stack.name }}-tensorboard{{- end }}
