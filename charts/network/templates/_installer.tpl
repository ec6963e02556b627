{{/* network.pauseImage: a container that does nothing, by digest; GKE's own.
                                                                  include "network.pauseImage" $ */}}
{{- define "network.pauseImage" -}}
gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830
{{- end }}

{{/* network.installerManifest: Google's manifest for this machine and kind of cluster, at a commit that does not move.
                                                                  include "network.installerManifest" $ */}}
{{- define "network.installerManifest" -}}
{{- $file := "nccl-rdma-installer.yaml" -}}
{{- if include "common.isAutopilot" . }}{{ $file = "nccl-rdma-installer-autopilot.yaml" }}{{ end -}}
{{- if eq (.Values.accelerator.architecture | default "amd64") "arm64" }}{{ $file = "nccl-rdma-installer-a4x.yaml" }}{{ end -}}
https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/992db81257553607f1477945f1b3219632991829/gpudirect-rdma/{{ $file }}
{{- end }}

{{/* network.checkInstaller: fail where this chart's installer could not run, or would have nothing to install.
                                                                  include "network.checkInstaller" $ */}}
{{- define "network.checkInstaller" -}}
{{- if include "common.isAutopilot" . -}}
{{- fail (printf "network.rdmaInstaller.enabled: Autopilot refuses privileged pods, but for Google's own manifest. Switch it off, and apply that once: kubectl apply -f %s" (include "network.installerManifest" .)) -}}
{{- end -}}
{{- if eq .Values.network.mode "none" -}}
{{- fail "network.rdmaInstaller.enabled: network.mode is none, and nothing would use the plugin. Switch it off" -}}
{{- end -}}
{{- if not .Values.accelerator.installerImage -}}
{{- fail (printf "network.rdmaInstaller.enabled: the profile of %s names no installerImage. Switch it off, or add the image to the profile" .Values.accelerator.name) -}}
{{- end -}}
{{- end }}

{{/* network.poolFlags: flags of the node pool that say how its machines are bought, as text.
                                                                  include "network.poolFlags" $ */}}
{{- define "network.poolFlags" -}}
{{- $capacity := .Values.platform.capacity -}}
{{- $flexible := "--flex-start --num-nodes=0 --enable-autoscaling --total-max-nodes=NODES --no-enable-autorepair --location-policy=ANY --reservation-affinity=none" -}}
{{- $flags := get (dict
  "on-demand" "--num-nodes=NODES"
  "spot" "--spot --num-nodes=NODES"
  "flex-start" $flexible
  "queued" (printf "%s --enable-queued-provisioning" $flexible)
  "reservation" (printf "--num-nodes=NODES --reservation-affinity=specific --reservation=%s" $capacity.reservation)) $capacity.kind -}}
{{- with $capacity.placementPolicy }}{{ $flags = printf "%s --placement-policy=%s" $flags . }}{{ end -}}
{{- $flags -}}
{{- end }}
