{{/*
Lines of NOTES.txt with a command for each thing that must exist and that no chart makes.

call                                                returns
include "common.notes.pods" (list $ 2)              for a head and two workers, and for what stands beside them
include "common.notes.named" (list $ $found)        for what common.named and common.named.add have found
*/}}

{{/* common.notes.pods (list $ WORKERS): with the wiring, whoever brings it. */}}
{{- define "common.notes.pods" -}}
{{- if ne (len .) 2 }}{{ fail "common.notes.pods takes (list $ WORKERS)" }}{{ end -}}
{{- $workers := index . 1 | int64 -}}
{{- with index . 0 -}}
{{- $pods := list (include "common.pod.head" (list . true) | fromJson) -}}
{{- if $workers }}{{ $pods = append $pods (include "common.pod.worker" (list . true) | fromJson) }}{{ end -}}
{{- $found := include "common.named" (list . $pods) | fromJson -}}
{{- $onGpus := or $workers .Values.ray.head.gpus.enabled -}}
{{- $definitions := list (ternary "rayclusters.ray.io" "rayjobs.ray.io" (eq .Chart.Name "raycluster")) -}}
{{- if eq .Values.ray.metrics.scrape "podMonitor" -}}
{{- $definitions = append $definitions "podmonitors.monitoring.coreos.com" -}}
{{- else if eq .Values.ray.metrics.scrape "podMonitoring" -}}
{{- $definitions = append $definitions "podmonitorings.monitoring.googleapis.com" -}}
{{- end -}}
{{- if and $onGpus .Values.accelerator.nvlinkDomainNodes .Values.stack.wiring.enabled -}}
{{- $definitions = append $definitions "computedomains.resource.nvidia.com" -}}
{{- end -}}
{{- range $definitions }}{{ include "common.named.add" (list $found "CustomResourceDefinition" . "" "") }}{{ end -}}
{{- if and $onGpus .Values.stack.wiring.enabled -}}
{{- range include "common.claimedDevices" . | fromJson -}}
{{- include "common.named.add" (list $found "DeviceClass" .deviceClass "" "") -}}
{{- end -}}
{{- end -}}
{{- with .Values.ray.kueue.queue }}{{ include "common.named.add" (list $found "LocalQueue" . "" "") }}{{ end -}}
{{- with .Values.ray.kueue.priorityClass -}}
{{- include "common.named.add" (list $found "WorkloadPriorityClass" . "" "") -}}
{{- end -}}
{{- include "common.notes.named" (list . $found) -}}
{{- end -}}
{{- end }}

{{/* common.notes.named (list $ FOUND): each Secret is made from files, so that no shell history holds a token. */}}
{{- define "common.notes.named" -}}
{{- if ne (len .) 2 }}{{ fail "common.notes.named takes (list $ FOUND)" }}{{ end -}}
{{- $scope := printf " --namespace %s" (index . 0).Release.Namespace -}}
{{- $made := dict "Secret" "secret generic" "ConfigMap" "configmap" "ServiceAccount" "serviceaccount" -}}
{{- $called := dict "CustomResourceDefinition" "crd" "PersistentVolumeClaim" "pvc"
  "LocalQueue" "localqueues.kueue.x-k8s.io" "WorkloadPriorityClass" "workloadpriorityclasses.kueue.x-k8s.io" -}}
{{- $everywhere := list "CSIDriver" "CustomResourceDefinition" "DeviceClass" "PriorityClass" "RuntimeClass"
  "StorageClass" "WorkloadPriorityClass" -}}
{{- $create := list -}}{{- $show := list -}}
{{- range $kind, $names := index . 1 -}}
{{- range $name, $keys := $names -}}
{{- if hasKey $made $kind -}}
{{- $flags := list -}}
{{- range $key, $file := omit $keys "" }}{{ $flags = append $flags (printf " --from-file=%s=%s" $key $file) }}{{ end -}}
{{- $word := include "common.named.word" $name -}}
{{- if and (not $flags) (eq (get $keys "") "env") }}{{ $flags = list (printf " --from-env-file=%s_FILE" $word) }}
{{- else if and (not $flags) (hasKey $keys "") }}{{ $flags = list (printf " --from-file=%s_FOLDER" $word) }}{{ end -}}
{{- if hasKey $keys ".dockerconfigjson" -}}
{{- $flags = append $flags " --type=kubernetes.io/dockerconfigjson" -}}
{{- end -}}
{{- $create = append $create (printf "kubectl create %s %s%s%s" (get $made $kind) $name $scope (join "" $flags)) -}}
{{- else -}}
{{- $what := get $called $kind | default (lower $kind) -}}
{{- $show = append $show (printf "kubectl get %s %s%s" $what $name (ternary "" $scope (has $kind $everywhere))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $create }}
what the pods name and no chart makes. Tokens come from files, so that no shell history holds them:
  {{- range . }}
  {{ . }}
  {{- end }}
{{- end }}
{{- with $show }}
what others make; each command shows whether it is there:
  {{- range . }}
  {{ . }}
  {{- end }}
{{- end }}
{{- end }}
