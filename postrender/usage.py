"""The help of every command."""

from __future__ import annotations

HELP = """\
usage: grpo COMMAND …

  lint         judge values files: what Helm would refuse, misread or ignore, with the line to edit
  check        judge manifests and charts, any chart, or what is rendered from values
  render       print what the charts render to, with a helm executable or the Helm inside helm-python-sdk
  diff         show how the rendered stack differs between accelerators
  dead-values  list the values of any chart that change nothing
  rules        list what lint and check judge by, or say all about one rule: grpo rules [ID]
  values       print what each value means: grpo values [SECTION]
  checkpoints  list the checkpoints of a run: whole or not, how large, how good, what a resume takes
  samples      show what a training step generated, with its rewards
  helm-plugin  make the plugin through which Helm 4 starts the post-renderer
  version      print the versions at work

`grpo COMMAND --help` shows the options of a command.
Exit codes: 0 clean, 1 findings, 2 wrong command line or input, 3 could not run.
"""

FILES_HELP = """\
  -f, --values FILE       a values file; once a file, later ones win, as with helm
  --accelerator NAME      put the profile of this accelerator before the files
"""
RENDERING_HELP = """\
  --helm PATH             helm executable (default: helm on PATH, else the Helm inside helm-python-sdk)
  --namespace NAME        namespace of the releases (default: default)
  --kube-version VERSION  Kubernetes version that the charts see
"""
JUDGING_HELP = """\
  --format FORM           text (default), json, github, sarif or junit
  --fail-on SEVERITY      exit with 1 for findings of this severity or a worse one: error (default), warning or info
  --select ID|DOMAIN      tell findings of this rule, or of these rules, only; more than one with commas
"""
LINT_HELP = f"""\
usage: grpo lint -f FILE … [options]

Judge values files without rendering them: spelling, types and forms by the charts' schemas, what Helm misreads,
secrets, and then the run that they describe, by the rules of its training framework and version.

{FILES_HELP}{JUDGING_HELP}\
  --fix                   show the changes that findings propose, ask, and write them into your own files
  --yes                   with --fix: do not ask
  --explain ID            print what a rule judges, why, and what to do, as grpo rules ID does

A finding that is meant stands under checks.ignore of the values, with the reason.
"""
CHECK_HELP = f"""\
usage: grpo check FILE|DIR|- … [-f VALUES …] [options]
       grpo check CHART … [-f VALUES …] [options]
       grpo check -f VALUES … [options]

Judge manifests, or charts with what they render to; grpo rules lists by what. Among it are the rules by which
grpo-post-render refuses a stream: interfaces and NCCL's table of another machine, GPU container not first, entries and
objects that stand twice, secrets, folders of the driver without a test. All pods of all objects are judged. Without
values files the rules about the stack's own machine have nothing to compare with; without manifests the values are
judged as grpo lint does, and then the layers that are rendered from them.

  FILE|DIR|-              manifests: a file, all .yaml, .yml and .json of a folder and those below it, or stdin
  CHART                   a chart, of a stack or any other: a folder with a Chart.yaml, or a package (.tgz)
{FILES_HELP}  --helm PATH             helm executable (default: helm on PATH, else the Helm inside helm-python-sdk)
  --kube-version VERSION  Kubernetes version that objects are for, and that the charts see (default: 1.35 for objects)
  --crds FILE|DIR|cluster definitions of more kinds: of files, of all files of a folder, of the cluster of kubectl
{JUDGING_HELP}
A file, and the files of one folder, are what is installed together: only there an object must not stand twice.
A chart is rendered twice, with its own values and the files behind -f; what differs is told, and no value of it shown.
Helm 3 gives hooks to no post-renderer; they are judged so:
  helm template … | grpo-post-render --values FILE … | grpo check -f FILE … -
A finding that is meant stands under checks.ignore of the values, with the reason.
No chart is given a file with nothing else in it: its schema may refuse what it does not know.
"""
RULES_HELP = """\
usage: grpo rules [ID|DOMAIN …] [options]

List the rules by which grpo lint and grpo check judge, of one domain (such as nemo-rl) where one is named. For an id
print what the rule judges, why, what to do, from which source it is, and for which versions of the framework.

  --format FORM           text (default) or json
"""
RENDER_HELP = f"""\
usage: grpo render [LAYER] -f FILE … [options]

Print the manifests of one layer (network, storage, raycluster, grpo-job), or of all in the order of installation.
With job.cluster.mode ephemeral all is without raycluster.

{FILES_HELP}{RENDERING_HELP}  --release NAME          name of the release (default: STACK-network, STACK-storage,
                          STACK-ray, and JOB or JOB-TASK)
  --notes                 print the notes of the charts on stderr (Helm 3 cannot)
  --output-dir DIR        write DIR/LAYER/KIND-NAME.yaml and a kustomization.yaml instead of printing; files that an
                          earlier run wrote there and this one does not are removed, and nothing else
"""
DIFF_HELP = f"""\
usage: grpo diff --accelerator NAME --accelerator NAME -f FILE … [options]

Show how the rendered stack differs between accelerators. Differences are no findings: the exit code is 0.

{FILES_HELP}{RENDERING_HELP}  --format FORM           text (default) or json
"""
DEAD_HELP = """\
usage: grpo dead-values CHART [-f FILE …] [options]

Change every value of a chart and of the files, one by one, render again, and list those that move nothing: misspelt
keys, keys that no template reads, keys that need another one to be set. Where turning over a boolean beside or above
them makes values count, they share one line at that boolean. Works on any chart, a folder or a package.
The exit code is 1 when there are any.

  -f, --values FILE       a values file; once a file, later ones win, as with helm
  --helm PATH             helm executable (default: helm on PATH, else the Helm inside helm-python-sdk)
  --format FORM           text (default) or json
"""
RUN_HELP = """\
  -f, --values FILE       a values file of the run's stack; without one, the word is a directory on this machine
  --accelerator NAME      put the profile of this accelerator before the files
  --namespace NAME        namespace of the cluster (default: that of kubectl's context)
  --cluster NAME          another RayCluster that mounts the run's volume
  --show-commands         print the command that asks the head pod, instead of running it
"""
CHECKPOINTS_HELP = f"""\
usage: grpo checkpoints RUN -f FILE … [options]
       grpo checkpoints DIRECTORY [options]

List the checkpoints of a run: complete or what is missing, size, metric, which one is the best and which one a resume
takes. The metric is that of the run's configuration (NeMo RL), or what the validation printed first (verl).
The exit code is 1 when the run lacks what was asked for, and 2 when there is no such run or directory of a run.

{RUN_HELP}  --metric NAME           what best means, instead
  --framework NAME        nemo-rl or verl, where no checkpoint says it
  --format FORM           text (default) or json
"""
SAMPLES_HELP = f"""\
usage: grpo samples RUN -f FILE … [options]
       grpo samples DIRECTORY [options]

Show samples of a training step: prompt, generation and reward, and mean and spread of the step's rewards.
Both frameworks write them at every step, verl into logs/rollouts of the run.
The exit code is 1 when the run lacks what was asked for, and 2 when there is no such run or directory of a run.

{RUN_HELP}  --step N                step, counted from 1 (default: the last)
  --count N               how many samples (default: 5)
  --worst, --best         those with the lowest or the highest reward, instead of the first
  --format FORM           text (default) or json
"""
VALUES_HELP = """\
usage: grpo values [SECTION]

Print the reference of all values, of a section or of a key: grpo values ray.workers
"""
POST_RENDER_HELP = """\
usage: helm install … --post-renderer grpo-post-render --post-renderer-args --values --post-renderer-args FILE …
       helm template … | grpo-post-render --values FILE … [options]

Wire the pods of a rendered stream, of any chart, by the values files of a stack: interfaces, NCCL's settings, folders
of the driver, shared memory, node placement, secrets by reference. Pods are wired that take all GPUs of a node of the
profile; pods of a Ray cluster get the secrets. Every other document passes byte for byte. A stream that is unsafe to
install is refused: then nothing is written to stdout, and the reasons go to stderr.

  --values FILE           a values file; once a file, later ones win, as with helm (or GRPO_VALUES=FILE:FILE)
  --on-conflict WHAT      where something is there and differs: fail (default), keep or replace
  --select KIND/NAME      wire this object only; may be given more than once
  --pod-template-path KIND=PATH
                          where objects of another kind have a pod template: MPIJob=spec.mpiReplicaSpecs.*.template
  --init-containers       give the secrets to init containers too
  --no-gate               wire, and judge nothing
  --report FILE           write what was wired, skipped and refused as JSON

An object with the annotation grpo-charts/wiring: skip is left alone. Helm 4 takes the name of a plugin instead of a
program: grpo helm-plugin install
Exit codes: 0, 1 refused, 2 wrong command line or input, 3 could not run.
"""
PLUGIN_HELP = """\
usage: grpo helm-plugin dir [DIRECTORY]
       grpo helm-plugin install [--helm PATH]

Make the plugin grpo-post-render, through which Helm 4 starts the post-renderer. Helm 3 needs none: it starts programs.

dir makes it in a folder of its own, renews it where it is not that of this grpo, and prints what goes into
HELM_PLUGINS, so that one command, or one job of CI, has it and nothing else changes:

  HELM_PLUGINS="$(grpo helm-plugin dir):$(helm env HELM_PLUGINS)" helm install RELEASE CHART \\
    --post-renderer grpo-post-render --post-renderer-args --values --post-renderer-args FILE

install puts it where helm looks for plugins; helm plugin uninstall grpo-post-render takes it away.

  DIRECTORY               a folder for plugins (default: one for this Python, below ~/.local/share/grpo-charts)
  --helm PATH             helm executable (default: helm on PATH)
"""
HELM_3 = """\
nothing was written: helm {version} starts the program itself and needs no plugin
use it:
  helm install RELEASE CHART --post-renderer {program} {arguments}
"""
HELM_4 = """\
{done}, for helm {version}
use it:
  helm install RELEASE CHART --post-renderer {name} {arguments}
take it away:
  helm plugin uninstall {name}
Helm 3 of this user loads none of its plugins while this one is there: it reads the same folder and knows no such
plugins. With both, use grpo helm-plugin dir.
"""
