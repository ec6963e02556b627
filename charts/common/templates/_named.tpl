{{/*
What pods name and no chart of the stack makes: Secrets, ConfigMaps, claims, classes and the like. The toolkit computes
the same from the rendered objects of all charts (grpo/manifests/needs); a test compares the two.

call                                                returns
include "common.named" (list $ $pods) | fromJson    {KIND: {NAME: {KEY: FILE}}} of a list of pod templates
include "common.named.add" (list $found "Secret" "name" "key" "FILE")   nothing; it adds to $found
include "common.named.sources" (list $found $volume "" list)            nothing; it adds what a volume or variable reads
include "common.named.rest" (list $found $spec)     nothing; it adds what else a pod spec names
include "common.named.made" $ | fromJson            the names that a chart or every cluster makes, by kind
include "common.named.word" "topo.xml"              the word for a file: TOPO_XML
*/}}

{{/* common.named (list $ PODS): FILE is the word for the file with the content of a key. Variables come first: a file
     has the name of the variable that takes it. The key "" stands for the whole object. */}}
{{- define "common.named" -}}
{{- if ne (len .) 2 }}{{ fail "common.named takes (list $ PODS)" }}{{ end -}}
{{- $root := index . 0 -}}{{- $found := dict -}}
{{- range index . 1 -}}
{{- range concat (.spec.initContainers | default list) .spec.containers -}}
{{- range .env }}{{ include "common.named.sources" (list $found (.valueFrom | default dict) .name list) }}{{ end -}}
{{- range .envFrom }}{{ include "common.named.sources" (list $found . "env" list) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range index . 1 -}}
{{- $spec := .spec -}}
{{- range $volume := .spec.volumes -}}
{{- $files := list -}}{{- $whole := false -}}
{{- range concat ($spec.initContainers | default list) $spec.containers -}}
{{- range .volumeMounts -}}
{{- if and (eq .name $volume.name) .subPath }}{{ $files = append $files (splitList "/" .subPath | first) }}
{{- else if eq .name $volume.name }}{{ $whole = true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- include "common.named.sources" (list $found $volume "" (ternary list $files $whole)) -}}
{{- range dig "projected" "sources" list $volume -}}
{{- include "common.named.sources" (list $found . "" list) -}}
{{- end -}}
{{- end -}}
{{- include "common.named.rest" (list $found $spec) -}}
{{- end -}}
{{- range $kind, $names := include "common.named.made" $root | fromJson -}}
{{- range $names }}{{ $_ := unset (get $found $kind | default dict) . }}{{ end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* common.named.add (list FOUND KIND NAME KEY FILE): FILE is empty for what is not made of files. */}}
{{- define "common.named.add" -}}
{{- if ne (len .) 5 }}{{ fail "common.named.add takes (list FOUND KIND NAME KEY FILE)" }}{{ end -}}
{{- $found := index . 0 -}}{{- $kind := index . 1 -}}{{- $name := index . 2 -}}
{{- $names := get $found $kind | default dict -}}
{{- $keys := get $names $name | default dict -}}
{{- if and (index . 4) (not (hasKey $keys (index . 3))) }}{{ $_ := set $keys (index . 3) (index . 4) }}{{ end -}}
{{- $_ := set $names $name $keys -}}{{- $_ := set $found $kind $names -}}
{{- end }}

{{/* common.named.sources (list FOUND HOLDER VARIABLE FILES): FILES are those that containers mount one by one. */}}
{{- define "common.named.sources" -}}
{{- if ne (len .) 4 }}{{ fail "common.named.sources takes (list FOUND HOLDER VARIABLE FILES)" }}{{ end -}}
{{- $found := index . 0 -}}{{- $holder := index . 1 -}}{{- $variable := index . 2 -}}{{- $files := index . 3 -}}
{{- $kinds := dict "configMap" "ConfigMap" "configMapRef" "ConfigMap" "configMapKeyRef" "ConfigMap"
  "secret" "Secret" "secretRef" "Secret" "secretKeyRef" "Secret" "persistentVolumeClaim" "PersistentVolumeClaim" -}}
{{- range $field, $kind := $kinds -}}
{{- $source := get $holder $field -}}
{{- if and (kindIs "map" $source) (not (dig "optional" false ($source | default dict))) -}}
{{- $name := $source.name | default $source.secretName | default $source.claimName -}}
{{- $keys := list -}}
{{- with $source.key }}{{ $keys = append $keys . }}{{ end -}}
{{- range $source.items }}{{ $keys = append $keys .key }}{{ end -}}
{{- range $keys | default $files -}}
{{- $word := ternary $variable . (and (ne $variable "") (ne $variable "env")) -}}
{{- include "common.named.add" (list $found $kind $name . (printf "%s_FILE" (include "common.named.word" $word))) -}}
{{- else -}}
{{- include "common.named.add" (list $found $kind $name "" (ternary "env" "folder" (eq $variable "env"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.named.word TEXT: in capitals, as the toolkit writes it. */}}
{{- define "common.named.word" -}}
{{- regexReplaceAll "[^A-Z0-9]+" (upper .) "_" | trimAll "_" -}}
{{- end }}

{{/* common.named.rest (list FOUND SPEC): what is neither a variable nor a volume that holds an object. */}}
{{- define "common.named.rest" -}}
{{- if ne (len .) 2 }}{{ fail "common.named.rest takes (list FOUND SPEC)" }}{{ end -}}
{{- $found := index . 0 -}}{{- $spec := index . 1 -}}
{{- range $field, $kind := dict
  "serviceAccountName" "ServiceAccount" "priorityClassName" "PriorityClass" "runtimeClassName" "RuntimeClass" -}}
{{- with get $spec $field }}{{ include "common.named.add" (list $found $kind . "" "") }}{{ end -}}
{{- end -}}
{{- range $spec.imagePullSecrets -}}
{{- include "common.named.add" (list $found "Secret" .name ".dockerconfigjson" "DOCKER_CONFIG_FILE") -}}
{{- end -}}
{{- range $spec.resourceClaims -}}
{{- with .resourceClaimName }}{{ include "common.named.add" (list $found "ResourceClaim" . "" "") }}{{ end -}}
{{- with .resourceClaimTemplateName -}}
{{- include "common.named.add" (list $found "ResourceClaimTemplate" . "" "") -}}
{{- end -}}
{{- end -}}
{{- range $spec.volumes -}}
{{- with .csi -}}
{{- include "common.named.add" (list $found "CSIDriver" .driver "" "") -}}
{{- with .nodePublishSecretRef }}{{ include "common.named.add" (list $found "Secret" .name "" "folder") }}{{ end -}}
{{- end -}}
{{- with dig "ephemeral" "volumeClaimTemplate" "spec" "storageClassName" "" . -}}
{{- include "common.named.add" (list $found "StorageClass" . "" "") -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* common.named.made $: what the charts make, and what every cluster has. */}}
{{- define "common.named.made" -}}
{{- $accounts := list "default" -}}{{- $claims := list -}}{{- $templates := list -}}
{{- if not .Values.stack.names.serviceAccount -}}
{{- $accounts = append $accounts (include "common.name" (list . "serviceAccount")) -}}
{{- end -}}
{{- range $name, $volume := include "common.volumes" . | fromJson -}}
{{- if not (or $volume.existingClaim $volume.ephemeral) -}}
{{- $claims = append $claims (include "common.claimName" (list $ $name)) -}}
{{- end -}}
{{- end -}}
{{- range include "common.wiring.claims" . | fromJsonArray -}}
{{- $templates = append $templates .resourceClaimTemplateName -}}
{{- end -}}
{{- dict "ServiceAccount" $accounts "PersistentVolumeClaim" $claims "ResourceClaimTemplate" $templates
  "PriorityClass" (list "system-node-critical" "system-cluster-critical")
  "ConfigMap" (list "kube-root-ca.crt") | toJson -}}
{{- end }}
