{{/*
Lines of NOTES.txt that two charts share.

call                                            returns
include "common.notes.needs" (list $ 2)         what must be there before the pods of a Ray cluster start
include "common.notes.nodes" (list $ 2)         one line of it: the GPU nodes
include "common.notes.machine" $                one line of it: what each GPU node has
include "common.notes.wiring" $                 who brings the wiring where the charts do not
include "common.notes.registry" $               the last lines: what to write for a chart from a registry
*/}}

{{/* common.notes.needs (list $ WORKERS): WORKERS is the number of worker pods. */}}
{{- define "common.notes.needs" -}}
{{- if ne (len .) 2 }}{{ fail "common.notes.needs takes (list $ WORKERS)" }}{{ end -}}
{{- $workers := index . 1 | int64 -}}
{{- with index . 0 -}}
{{- $head := .Values.ray.head -}}
{{- $gpuNodes := add $workers (ternary 1 0 $head.gpus.enabled) -}}
{{- $recreates := and (eq .Chart.Name "raycluster") (ne .Values.ray.upgrade "manual") -}}
Needs, before the pods start:
  the KubeRay operator{{ if $recreates }} 1.6 or newer (with an older one: ray.upgrade: manual){{ end }}. {{ "" -}}
  Once in a cluster, unless one runs there already
  {{- if include "common.isGoogle" . }}, such as GKE's Ray add-on{{ end }}:
    helm install kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ {{ "" -}}
    --version 1.6.2 --namespace ray-system --create-namespace
  {{- if eq .Values.network.mode "multiNetwork" }}
  the network release: KubeRay cannot create a pod that names a missing Network
  {{- end }}
  the storage release in this namespace, for the claims
  {{- if not .Values.stack.names.serviceAccount }} and service account {{ "" -}}
  {{ include "common.name" (list . "serviceAccount") }}
  {{- end }}
  {{- if not $head.gpus.enabled }}
  for the head, a node without GPUs that has more than {{ $head.cpu }} cores, {{ $head.memory }} and {{ "" -}}
  {{ $head.ephemeralStorage }} of local disk
  {{- if (include "common.podVolumes" . | fromJson).annotations }} {{ "" -}}
  (and {{ .Values.ray.gcsfuse.cpu }} cores, {{ .Values.ray.gcsfuse.memory }} and {{ "" -}}
  {{ include "common.gcsfuseDisk" . }} for its GCS FUSE sidecar)
  {{- end }}
  {{- end }}
  {{- include "common.notes.nodes" (list . $gpuNodes) | nindent 2 }}
  {{- if $gpuNodes }}
    {{- include "common.notes.machine" . | nindent 4 }}
  {{- end }}
  {{- if or (not .Values.huggingface.offline.enabled) (include "common.fetchesForOffline" .) }}
  for a gated model (Gemma, Llama): the owner of the token has accepted its licence on the hub
  {{- end }}
  {{- include "common.notes.pods" (list . $workers) | trim | nindent 2 }}
  {{- $hasFolders := include "common.entries" .Values.accelerator.hostPaths | fromJson }}
  {{- if and $gpuNodes (include "common.isGoogle" .) $hasFolders }}
  {{- $pinsMemory := not (or (include "common.isAutopilot" .) (eq .Values.network.mode "none")) }}
  a namespace that allows hostPath volumes{{ if $pinsMemory }} and IPC_LOCK{{ end }}, {{ "" -}}
  which Pod Security baseline refuses:
    kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged --overwrite
  {{- if .Values.network.podPolicy.enabled }}
    kubectl label namespace {{ .Release.Namespace }} grpo-charts/pods={{ .Values.accelerator.name }} --overwrite
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* common.notes.nodes (list $ NODES): NODES counts the head where it has GPUs. */}}
{{- define "common.notes.nodes" -}}
{{- if ne (len .) 2 }}{{ fail "common.notes.nodes takes (list $ NODES)" }}{{ end -}}
{{- $nodes := index . 1 -}}
{{- with index . 0 -}}
{{- if not $nodes -}}
no GPU node: this runs on the head alone
{{- else if not .Values.accelerator.gpusPerNode -}}
{{ $nodes }} nodes like {{ .Values.accelerator.machineType }}, for the workers
{{- else -}}
{{ $nodes }} GPU {{ ternary "node" "nodes" (eq (int64 $nodes) 1) }}
{{- if include "common.isAutopilot" . }} (GKE makes them for the pods){{ end }}
{{- with int64 .Values.images.training.minimumDriver }} with NVIDIA driver {{ . }} or newer{{ end }}
{{- $installed := and (ne .Values.network.mode "none") .Values.accelerator.installerImage -}}
{{- if $installed }} and the RDMA plugin (see the NOTES of the network release){{ end }}
{{- if (include "common.wiring" (list . true) | fromJson).initContainers -}}
; init container check-node reports what is missing
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.notes.machine $: facts that the profile leaves out are left out here too. */}}
{{- define "common.notes.machine" -}}
{{- $accelerator := .Values.accelerator -}}
{{- $gpus := int64 $accelerator.gpusPerNode -}}
machine type {{ $accelerator.machineType }}
{{- if $gpus }}: {{ $gpus }}
{{- with $accelerator.gpuArchitecture }} {{ title . }}{{ end }} {{ ternary "GPU" "GPUs" (eq $gpus 1) }}
{{- with $accelerator.gpuMemoryGigabytes }} of {{ int64 . }} GB{{ end }}
{{- end -}}
; a pod takes {{ $accelerator.worker.cpu }} cores and {{ $accelerator.worker.memory }}
{{- with $accelerator.node }} of about {{ .cpu }} cores and {{ .memory }}{{ end }}
{{- end }}

{{/* common.notes.wiring $: empty where the charts bring it. */}}
{{- define "common.notes.wiring" -}}
{{- if not .Values.stack.wiring.enabled }}
The pods of this chart are not wired (stack.wiring.enabled is false): every install and upgrade of release {{ "" -}}
{{ .Release.Name }} needs --post-renderer grpo-post-render, which reads the same values files.
{{- end }}
{{- end }}

{{/* common.notes.registry $: a chart does not know where it came from, so the commands name folders of a checkout. */}}
{{- define "common.notes.registry" }}

The commands name charts of a checkout. With charts from a registry, write for charts/NAME:
  oci://REGISTRY/charts/NAME --version {{ .Chart.Version }}
{{- end }}
