{{/*
What the policy of network.podPolicy lets the pods of a namespace do: the level baseline of Pod Security, and what the
profile needs beyond it.

call                                                    returns
include "network.podPolicy.name" $                      name of the policy and of its binding
include "network.podPolicy.capabilities" $              capabilities that a container may add, as JSON
include "network.podPolicy.folders" $                   folders of the node that a pod may mount, as JSON
include "network.podPolicy.validations" $ | fromJsonArray    what must be true of a pod, with the words of its refusal
*/}}

{{/* network.podPolicy.name $: one for each machine family, as the networks. */}}
{{- define "network.podPolicy.name" -}}grpo-pods-{{ .Values.accelerator.name }}{{- end }}

{{/* network.podPolicy.capabilities $: those of the level baseline, and what RDMA needs. */}}
{{- define "network.podPolicy.capabilities" -}}
{{- $baseline := list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE"
  "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" -}}
{{- concat $baseline (include "common.networkCapabilities" . | fromJsonArray) | toJson -}}
{{- end }}

{{/* network.podPolicy.folders $: the pods read them. */}}
{{- define "network.podPolicy.folders" -}}
{{- $folders := list -}}
{{- range include "common.entries" .Values.accelerator.hostPaths | fromJson -}}
{{- $folders = append $folders .hostPath -}}
{{- end -}}
{{- $folders | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* network.podPolicy.validations $: the controls of the level baseline, as
     https://kubernetes.io/docs/concepts/security/pod-security-standards lists them. In the node's network each port is
     one of the node, so the ports are not judged there. */}}
{{- define "network.podPolicy.validations" -}}
{{- $hostNetwork := include "common.usesHostNetwork" . | eq "yes" -}}
{{- $host := list "hostPID" "hostIPC" -}}
{{- if not $hostNetwork }}{{ $host = prepend $host "hostNetwork" }}{{ end -}}
{{- $shared := list -}}
{{- range $host }}{{ $shared = append $shared (printf "!object.spec.?%s.orValue(false)" .) }}{{ end -}}
{{- $profile := printf "the profile of %s" .Values.accelerator.name -}}
{{- $ports := "variables.containers.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))" -}}
{{- $labels := list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t" -}}
{{- $sysctls := list "kernel.shm_rmid_forced" "net.ipv4.ip_local_port_range" "net.ipv4.ip_local_reserved_ports"
  "net.ipv4.ip_unprivileged_port_start" "net.ipv4.ping_group_range" "net.ipv4.tcp_fin_timeout"
  "net.ipv4.tcp_keepalive_intvl" "net.ipv4.tcp_keepalive_probes" "net.ipv4.tcp_keepalive_time"
  "net.ipv4.tcp_syncookies" -}}
{{- $apparmor := "container.apparmor.security.beta.kubernetes.io/" -}}
{{- $other := list
  (ternary "true" $ports $hostNetwork)
  "variables.contexts.all(s, !s.?windowsOptions.?hostProcess.orValue(false))"
  "variables.contexts.all(s, s.?appArmorProfile.?type.orValue('') != 'Unconfined')"
  (printf "object.metadata.?annotations.orValue({}).all(k, !k.startsWith('%s') || %s != 'unconfined')"
    $apparmor "object.metadata.annotations[k]")
  (printf "variables.contexts.all(s, s.?seLinuxOptions.?type.orValue('') in %s)" (toJson $labels))
  "variables.contexts.all(s, s.?seLinuxOptions.?user.orValue('') == '' && s.?seLinuxOptions.?role.orValue('') == '')"
  "variables.contexts.all(s, s.?procMount.orValue('Default') == 'Default')"
  "variables.contexts.all(s, s.?seccompProfile.?type.orValue('') != 'Unconfined')"
  (printf "object.spec.?securityContext.?sysctls.orValue([]).all(x, x.name in %s)" (toJson $sysctls)) -}}
{{- list
  (dict "expression" (join " && " $shared)
    "message" (printf "a pod here may not share its node: no %s" (join ", " $host)))
  (dict "expression" "variables.contexts.all(s, !s.?privileged.orValue(false))"
    "message" "a container here may not be privileged: it would be root on its node")
  (dict "expression" (printf "variables.contexts.all(s, s.?capabilities.?add.orValue([]).all(k, k in %s))"
      (include "network.podPolicy.capabilities" .))
    "message" (printf "a container here may add only the capabilities of the level baseline and of %s" $profile))
  (dict "expression" (printf "variables.folders.all(v, v.hostPath.path in %s)"
      (include "network.podPolicy.folders" .))
    "message" (printf "a pod here may mount only the folders of its node that %s names" $profile))
  (dict "expression" (print "variables.containers.all(c, c.?volumeMounts.orValue([]).all(m, "
      "m.?readOnly.orValue(false) || !variables.folders.exists(v, v.name == m.name)))")
    "message" "a container here may mount a folder of its node only with readOnly")
  (dict "expression" (join " && " $other)
    "message" (print "the level baseline of Pod Security forbids this pod: ports of the node, profiles of AppArmor, "
      "SELinux or seccomp, procMount, sysctls or HostProcess")) | toJson -}}
{{- end }}
