{{/*
What verl would accept and then ignore, wait for without end, or look for in each pod by itself.

call                                                            returns
include "grpo.framework" (list $ "check")                       nothing; fails for any of it
include "grpo.verl.checkCode" $                                 nothing; fails where verl's code is missing
include "grpo.verl.checkRewardKeys" (list "0.9.1" $config)      nothing; fails for a reward key of another version
include "grpo.verl.checkPaths" $config                          nothing; fails for a relative path
*/}}

{{/* grpo.verl.check $: called by include "grpo.framework" (list $ "check"). */}}
{{- define "grpo.verl.check" -}}
{{- include "grpo.verl.checkCode" . -}}
{{- $version := .Values.job.version -}}{{- $config := include "grpo.config" . | fromJson -}}
{{- range $name, $value := include "grpo.environment" . | fromJson -}}
{{- if contains "${" $value -}}
{{- fail (printf (print "job.env.%s contains ${, which verl reads as an interpolation when it passes the value to the "
  "workers: write it under ray.env [job/variable-of-the-charts]") $name) -}}
{{- end -}}
{{- end -}}
{{- if and (semverCompare ">=0.9.0" $version) (hasKey .Values.job.runtimeEnv "py_executable") -}}
{{- fail (printf (print "job.runtimeEnv.py_executable: verl %s sets it too, and Ray refuses to merge the "
  "two. Remove it [job/runtime-env-twice]")
  $version) -}}
{{- end -}}
{{- $cpus := mul (int64 .Values.accelerator.gpusPerNode) (ternary 1 3 (semverCompare "<0.7.0" $version)) -}}
{{- if lt (int64 .Values.accelerator.worker.cpu) $cpus -}}
{{- fail (printf (print "verl %s reserves %d CPUs on each node and waits forever for them, but "
  "accelerator.worker.cpu is %v: raise it, if the nodes have more [verl/cpus-for-gpus]")
  $version $cpus .Values.accelerator.worker.cpu) -}}
{{- end -}}
{{- include "grpo.verl.checkRewardKeys" (list $version $config) -}}
{{- include "grpo.verl.checkPaths" $config -}}
{{- end }}

{{/* grpo.verl.checkPaths CONFIG: each process of verl would look for a relative path in its own pod. */}}
{{- define "grpo.verl.checkPaths" -}}
{{- $config := . -}}
{{- $keys := list
  "data.train_files" "data.val_files"
  "trainer.resume_from_path" "trainer.rollout_data_dir" "trainer.validation_data_dir"
  "custom_reward_function.path" "reward.custom_reward_function.path" -}}
{{- $trainer := get $config "trainer" -}}
{{- if and (kindIs "map" $trainer) (has (get $trainer "resume_mode" | default "auto") (list "auto" "disable")) -}}
{{- /* Only resume_mode: resume_path reads it. */ -}}
{{- $keys = without $keys "trainer.resume_from_path" -}}
{{- end -}}
{{- range $path := $keys -}}
{{- $value := $config -}}
{{- range splitList "." $path -}}
{{- $value = ternary (get ($value | default dict) .) nil (kindIs "map" $value) -}}
{{- end -}}
{{- range $file := ternary $value (list $value) (kindIs "slice" $value) -}}
{{- if and $file (not (regexMatch `^(/|\$\{|[a-z0-9+]+://)` (toString $file))) -}}
{{- fail (printf (print "job.config.%s: %v is relative, so each process of verl would look in its own pod: write "
  "an absolute path on a volume, such as ${oc.env:GRPO_DATASETS}/gsm8k/train.parquet [verl/relative-path]")
  $path $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.checkRewardKeys (list VERSION CONFIG): a reward in another version's place is composed, ignored, and
     replaced by the default one. */}}
{{- define "grpo.verl.checkRewardKeys" -}}
{{- if ne (len .) 2 }}{{ fail "grpo.verl.checkRewardKeys takes (list VERSION CONFIG)" }}{{ end -}}
{{- $version := index . 0 -}}{{- $config := index . 1 -}}
{{- if and (semverCompare "<0.7.0" $version) (hasKey $config "reward") -}}
{{- fail (printf (print "job.config.reward: verl %s ignores it and would use its own reward. Write "
  "custom_reward_function and reward_model, as that version spells them [verl/unknown-key]") $version) -}}
{{- end -}}
{{- if semverCompare ">=0.9.0" $version -}}
{{- range $key := list "custom_reward_function" "reward_model" "sandbox_fusion" -}}
{{- if hasKey $config $key -}}
{{- fail (printf (print "job.config.%s: verl %s ignores it and would use its own reward. Write it under reward, as "
  "that version spells it [verl/legacy-reward]") $key $version) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* grpo.verl.checkCode $: the images that verl publishes hold what it needs, and not verl itself. */}}
{{- define "grpo.verl.checkCode" -}}
{{- $job := .Values.job -}}
{{- $package := get $job.code.packages "verl" | default "" -}}
{{- if and $package (ne $package $job.version) -}}
{{- fail (printf "job.code.packages.verl is %s, but job.version is %s: make them equal" $package $job.version) -}}
{{- end -}}
{{- $isTheirs := hasSuffix "verlai/verl" .Values.images.training.repository -}}
{{- if and $isTheirs (not $package) (not $job.code.repository) -}}
{{- fail (printf "image %s has no verl in it: set job.code.packages.verl to %s, and run task fetch once"
  (include "common.image" .) $job.version) -}}
{{- end -}}
{{- end }}
