{{/* common.notes.needs: what must be there before the pods of a Ray cluster start, as lines of NOTES.
                                                                  include "common.notes.needs" (list $ 2) */}}
{{- define "common.notes.needs" -}}
{{- if ne (len .) 2 }}{{ fail "common.notes.needs takes (list $ WORKERS)" }}{{ end -}}
{{- $workers := index . 1 | int64 -}}
{{- with index . 0 -}}
{{- $root := . -}}
{{- $gpuNodes := add $workers (ternary 1 0 .Values.ray.head.gpus.enabled) -}}
Needs, before the pods start:
  the KubeRay operator{{ if and (eq .Chart.Name "raycluster") (eq .Values.ray.upgrade "recreate") }} 1.6 or newer (with 1.5: ray.upgrade: manual){{ end }}:
    helm install kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ --version 1.6.2 --namespace ray-system --create-namespace
  {{- if eq .Values.network.mode "multiNetwork" }}
  the network release; a pod that names a missing Network is refused when KubeRay makes it
  {{- end }}
  the storage release in this namespace, with the claims and service account {{ include "common.name" (list . "serviceAccount") }}
  {{- if not .Values.ray.head.gpus.enabled }}
  a node without GPUs with more than {{ .Values.ray.head.cpu }} cores, {{ .Values.ray.head.memory }} and {{ .Values.ray.head.ephemeralStorage }} of local disk, for the head
  {{- if (include "common.podVolumes" . | fromJson).annotations }} (and {{ .Values.ray.gcsfuse.cpu }} cores, {{ .Values.ray.gcsfuse.memory }} and {{ include "common.gcsfuseDisk" . }} for its GCS FUSE sidecar){{ end }}
  {{- end }}
  {{- if not $gpuNodes }}
  no GPU node: this runs on the head alone
  {{- else if not .Values.accelerator.gpusPerNode }}
  {{ $gpuNodes }} nodes like {{ .Values.accelerator.machineType }}, for the workers
  {{- else }}
  {{ $gpuNodes }} GPU nodes{{ if include "common.isAutopilot" . }} (made when the pods are there){{ end }}{{ with int64 .Values.images.training.minimumDriver }} with NVIDIA driver {{ . }} or newer{{ end }}
  {{- if ne .Values.network.mode "none" }} and the RDMA plugin (NOTES of the network release tell how){{ end }}{{ if (include "common.wiring" (list . true) | fromJson).initContainers }}; the init container check-node says what is missing{{ end }}
  {{- end }}
  {{- if not .Values.huggingface.offline.enabled }}
  where the model is gated (Gemma, Llama): its licence accepted on the hub by the owner of the token
  {{- end }}
  {{- $secrets := list -}}
  {{- if not .Values.huggingface.offline.enabled }}{{ $secrets = append $secrets .Values.huggingface.secret }}{{ end -}}
  {{- if .Values.tracking.wandb.enabled }}{{ $secrets = append $secrets .Values.tracking.wandb.secret }}{{ end -}}
  {{- range $secrets }}
  Secret {{ .name }}, made from a file, so that the token stands in no shell history:
    kubectl create secret generic {{ .name }} --namespace {{ $root.Release.Namespace }} --from-file={{ .key }}=TOKEN_FILE
  {{- end }}
  {{- if and $gpuNodes (include "common.isGoogle" .) (include "common.entries" .Values.accelerator.hostPaths | fromJson) }}
  a namespace that allows hostPath volumes{{ if not (or (include "common.isAutopilot" .) (eq .Values.network.mode "none")) }} and IPC_LOCK{{ end }}, which Pod Security baseline refuses:
    kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged --overwrite
  {{- end }}
{{- end }}
{{- end }}

{{/* common.notes.wiring: who brings the wiring where the charts do not, as a line of NOTES.
                                                                  include "common.notes.wiring" $ */}}
{{- define "common.notes.wiring" -}}
{{- if not .Values.stack.wiring.enabled }}
The pods of this chart are not wired (stack.wiring.enabled is false): every install and upgrade of release {{ .Release.Name }} needs --post-renderer grpo-post-render, which reads the same values files.
{{- end }}
{{- end }}
