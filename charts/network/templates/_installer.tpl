{{/*
The RDMA plugin of the nodes, and the node pool that carries it.

call                                            returns
include "network.pauseImage" $                  image of a container that does nothing
include "network.installerManifest" $           URL of Google's manifest for this machine and kind of cluster
include "network.checkInstaller" $              nothing; fails where this chart's installer cannot run
include "network.poolFlags" $                   flags of the node pool that say how its machines are bought
*/}}

{{/* network.pauseImage $: GKE's own, by digest. */}}
{{- define "network.pauseImage" -}}
gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830
{{- end }}

{{/* network.installerManifest $: at a commit, so that it does not move. */}}
{{- define "network.installerManifest" -}}
{{- $repository := "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators" -}}
{{- $commit := "992db81257553607f1477945f1b3219632991829" -}}
{{- $file := "nccl-rdma-installer.yaml" -}}
{{- if include "common.isAutopilot" . }}{{ $file = "nccl-rdma-installer-autopilot.yaml" }}{{ end -}}
{{- if eq (.Values.accelerator.architecture | default "amd64") "arm64" -}}
{{- $file = "nccl-rdma-installer-a4x.yaml" -}}
{{- end -}}
{{- printf "%s/%s/gpudirect-rdma/%s" $repository $commit $file -}}
{{- end }}

{{/* network.checkInstaller $: called where network.rdmaInstaller is enabled. */}}
{{- define "network.checkInstaller" -}}
{{- if include "common.isAutopilot" . -}}
{{- fail (printf (print "network.rdmaInstaller.enabled: Autopilot refuses privileged pods, except those of Google's "
  "own manifest. Switch it off, and apply the manifest once: kubectl apply -f %s")
  (include "network.installerManifest" .)) -}}
{{- end -}}
{{- if eq .Values.network.mode "none" -}}
{{- fail "network.rdmaInstaller.enabled: network.mode is none, so nothing would use the plugin. Switch it off" -}}
{{- end -}}
{{- if not .Values.accelerator.installerImage -}}
{{- fail (printf (print "network.rdmaInstaller.enabled: the profile of %s names no installerImage. Switch it off, "
  "or add the image to the profile") .Values.accelerator.name) -}}
{{- end -}}
{{- end }}

{{/* network.poolFlags $: by platform.capacity. */}}
{{- define "network.poolFlags" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- $flexible := print "--flex-start --num-nodes=0 --enable-autoscaling --total-max-nodes=NODES --no-enable-autorepair "
  "--location-policy=ANY --reservation-affinity=none" -}}
{{- $reserved := "--num-nodes=NODES --reservation-affinity=specific --reservation=%s" -}}
{{- $flags := get (dict
  "on-demand" "--num-nodes=NODES"
  "spot" "--spot --num-nodes=NODES"
  "flex-start" $flexible
  "queued" (printf "%s --enable-queued-provisioning" $flexible)
  "reservation" (printf $reserved $capacity.reservation)) $capacity.kind -}}
{{- with $capacity.placementPolicy }}{{ $flags = printf "%s --placement-policy=%s" $flags . }}{{ end -}}
{{- $flags -}}
{{- end }}
