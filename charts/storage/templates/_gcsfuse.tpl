{{/* storage.gcsfuseOptions: mount options of a bucket, as JSON map: those of its purpose, and the user's over them.
     Each option and its reason:
       implicit-dirs                    folders that another tool has uploaded are seen, not only those made by a mount
       rename-dir-limit                 NeMo RL finishes a step by renaming its folder; the driver refuses that on a bucket without
                                        hierarchical namespace, but for A3 and A4 machines, and the head is none
       metadata-cache:ttl-secs 0        the record of who owns a run, and a step that another pod has finished, are seen at once
       metadata-cache:ttl-secs -1       data does not change while the pods run, and asking again for each file costs minutes an epoch
       metadata-cache:negative-ttl-secs 0   a file that was missing a moment ago is found: one pod downloads, the others wait for it
       metadata-cache:stat-cache-max-size-mb   room for the metadata of a million files, within the sidecar's memory
                                                                  include "storage.gcsfuseOptions" $volume.gcsfuse | fromJson */}}
{{- define "storage.gcsfuseOptions" -}}
{{- $both := dict "implicit-dirs" "" "metadata-cache:negative-ttl-secs" "0" -}}
{{- $sets := dict
  "checkpoints" (dict "metadata-cache:ttl-secs" "0" "rename-dir-limit" "200000")
  "data" (dict "metadata-cache:ttl-secs" "-1" "metadata-cache:stat-cache-max-size-mb" "1024")
  "cache" (dict "metadata-cache:ttl-secs" "60" "rename-dir-limit" "200000") -}}
{{- $options := dict -}}
{{- with .purpose }}{{ $options = merge (get $sets .) $both }}{{ end -}}
{{- $merged := include "common.merge" (list $options (.mountOptions | default dict)) | fromJson -}}
{{- include "common.entries" $merged -}}
{{- end }}
