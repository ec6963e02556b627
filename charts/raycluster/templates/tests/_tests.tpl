{{/*
The tests of `helm test`. Each is a pod that submits a Ray job and waits for it.

call                                            returns
include "raycluster.tests" $ | fromJson         what each test checks, by the test's name
include "raycluster.testPlan" (list $ "gpus" $given)    the argument of a test's pod, as JSON
include "raycluster.testPrograms" $             the name of the ConfigMap that holds the tests' programs
*/}}

{{/* raycluster.tests $: a test that has nothing to check is left out. */}}
{{- define "raycluster.tests" -}}
{{- $gpus := int64 .Values.accelerator.gpusPerNode -}}
{{- $gpuNodes := include "common.gpuNodes" . | int64 -}}
{{- $rayNodes := add1 (int64 .Values.ray.workers.replicas) -}}
{{- $tests := dict -}}
{{- if $gpus }}{{ $_ := set $tests "gpus" (dict "nodes" $gpuNodes "gpusPerNode" $gpus) }}{{ end -}}
{{- if gt (mul $gpuNodes $gpus) 1 -}}
{{- $nccl := .Values.accelerator.nccl -}}
{{- $net := ternary "" ($nccl.net | default "") (eq .Values.network.mode "none") -}}
{{- /* What is published was measured between two nodes, over the machine's own network. */ -}}
{{- $published := ternary ($nccl.busBandwidth | default 0) 0 (and (ne $net "") (gt $gpuNodes 1)) -}}
{{- $_ := set $tests "nccl" (dict
  "nodes" $gpuNodes
  "gpusPerNode" $gpus
  "backend" "nccl"
  "net" $net
  "bytes" 1073741824
  "minimumBusBandwidth" (round (mulf $published .Values.ray.test.nccl.minimumShare) 1)) -}}
{{- end -}}
{{- $volumes := list -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $shared := not (hasKey $volume "ephemeral") -}}
{{- $volumes = append $volumes (dict "name" $name "path" $volume.mountPath "shared" $shared) -}}
{{- end -}}
{{- if $volumes }}{{ $_ := set $tests "storage" (dict "nodes" $rayNodes "volumes" $volumes) }}{{ end -}}
{{- if not .Values.huggingface.offline.enabled -}}
{{- $secret := .Values.huggingface.secret -}}
{{- $reference := printf "key %s of Secret %s" $secret.key $secret.name -}}
{{- $_ := set $tests "huggingface" (dict "nodes" $rayNodes "secret" $reference) -}}
{{- end -}}
{{- toJson $tests -}}
{{- end }}

{{/* raycluster.testPlan (list $ NAME GIVEN): GIVEN is the test's entry of raycluster.tests. */}}
{{- define "raycluster.testPlan" -}}
{{- if ne (len .) 3 }}{{ fail "raycluster.testPlan takes (list $ NAME GIVEN)" }}{{ end -}}
{{- $root := index . 0 -}}
{{- dict
  "address" (printf "%s-head-svc:8265" (include "common.name" (list $root "cluster")))
  "timeoutSeconds" (int64 $root.Values.ray.test.timeoutSeconds)
  "probe" (include "common.merge" (list (dict "check" (index . 1)) (index . 2)) | fromJson) | toPrettyJson -}}
{{- end }}

{{/* raycluster.testPrograms $: one for each cluster. */}}
{{- define "raycluster.testPrograms" -}}
{{- printf "%s-test" (include "common.name" (list . "cluster")) -}}
{{- end }}
