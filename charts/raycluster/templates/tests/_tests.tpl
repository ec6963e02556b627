{{/* raycluster.tests: what each test gives to its probe, as JSON map from the test's name. A test that would have nothing to look at is
     left out.                                                    include "raycluster.tests" $ | fromJson */}}
{{- define "raycluster.tests" -}}
{{- $gpus := int64 .Values.accelerator.gpusPerNode -}}
{{- $gpuNodes := include "common.gpuNodes" . | int64 -}}
{{- $rayNodes := add1 (int64 .Values.ray.workers.replicas) -}}
{{- $tests := dict -}}
{{- if $gpus }}{{ $_ := set $tests "gpus" (dict "nodes" $gpuNodes "gpusPerNode" $gpus) }}{{ end -}}
{{- $across := min 2 $gpuNodes -}}
{{- if gt (mul $across $gpus) 1 -}}
{{- $nccl := .Values.ray.test.nccl -}}
{{- $net := ternary "" (.Values.accelerator.nccl.net | default "") (eq .Values.network.mode "none") -}}
{{- $_ := set $tests "nccl" (dict "nodes" $gpuNodes "across" $across "gpusPerNode" $gpus "backend" "nccl" "net" $net "bytes" 1073741824 "minimumBusBandwidth" (int64 $nccl.minimumBusBandwidth)) -}}
{{- end -}}
{{- $volumes := list -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- $volumes = append $volumes (dict "name" $name "path" $volume.mountPath "shared" (not (hasKey $volume "ephemeral"))) -}}
{{- end -}}
{{- if $volumes }}{{ $_ := set $tests "storage" (dict "nodes" $rayNodes "volumes" $volumes) }}{{ end -}}
{{- if not .Values.huggingface.offline.enabled -}}
{{- $secret := .Values.huggingface.secret -}}
{{- $_ := set $tests "huggingface" (dict "nodes" $rayNodes "secret" (printf "key %s of Secret %s" $secret.key $secret.name)) -}}
{{- end -}}
{{- toJson $tests -}}
{{- end }}

{{/* raycluster.testPlan: the argument of a test's pod, as JSON.
                                                                  include "raycluster.testPlan" (list $ "gpus" $given) */}}
{{- define "raycluster.testPlan" -}}
{{- $root := index . 0 -}}
{{- dict
  "address" (printf "%s-head-svc:8265" (include "common.name" (list $root "cluster")))
  "timeoutSeconds" (int64 $root.Values.ray.test.timeoutSeconds)
  "probe" (include "common.merge" (list (dict "check" (index . 1)) (index . 2)) | fromJson) | toPrettyJson -}}
{{- end }}

{{/* raycluster.testPrograms: name of the ConfigMap that holds the tests' programs.
                                                                  include "raycluster.testPrograms" $ */}}
{{- define "raycluster.testPrograms" -}}
{{- printf "%s-test" (include "common.name" (list . "cluster")) -}}
{{- end }}
