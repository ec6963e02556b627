"""What the charts name and do not make: the computation, the guide and the notes of each chart say the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Rendered
from grpo.manifests.needs import commands, needed, prerequisites
from grpo.manifests.needs.needed import Need
from grpo.start import guide
from tests.conftest import ACCELERATORS, LAYERS, RECIPES, Object, stack_files, thin
from tests.docs import pages

NAMESPACE = "team-a"
# Of each kind of thing one, in the pods and beside them.
EVERYTHING = """
stack: {names: {serviceAccount: pods}}
platform: {kind: kubernetes}
network: {mode: dranet}
storage:
  data: {mountPath: /data, gcsfuse: null, existingClaim: {name: shared}}
  more: {mountPath: /more, pvc: {storageClassName: nfs, size: 1Ti}}
tracking: {wandb: {enabled: true}, tensorboard: {server: {enabled: true}}}
ray:
  metrics: {scrape: podMonitor}
  kueue: {queue: gpus, priorityClass: high}
  env: {MLFLOW_TRACKING_TOKEN: {secret: {name: mlflow, key: token}}}
  head:
    podSpec: {imagePullSecrets: [{name: registry}], priorityClassName: urgent}
    mounts: {scratch: {mountPath: /scratch}}
    volumes:
      scratch:
        ephemeral:
          volumeClaimTemplate:
            spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
  workers:
    podSpec: {runtimeClassName: sandbox, resourceClaims: [{name: extra, resourceClaimName: mine}]}
    mounts:
      settings: {mountPath: /settings}
      keys: {mountPath: /keys/one, subPath: one.pem}
      parts: {mountPath: /parts}
    volumes:
      settings: {configMap: {name: settings}}
      keys: {secret: {secretName: keys}}
      parts: {projected: {sources: [{secret: {name: parts, items: [{key: a, path: a}, {key: b, path: b}]}}]}}
"""
OF_ITS_OWN = "job: {cluster: {mode: ephemeral}}\n"
CLAIM = "storage: {data: {gcsfuse: null, existingClaim: {name: shared}}}\n"
# What a reference looks like in any object: the key of a map with a name, or of the name itself.
MAPS = {
    **dict.fromkeys(("secretKeyRef", "secretRef", "nodePublishSecretRef", "secret"), "Secret"),
    **dict.fromkeys(("configMapKeyRef", "configMapRef", "configMap"), "ConfigMap"),
}
NAMES = {
    "secretName": "Secret",
    "claimName": "PersistentVolumeClaim",
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
    "storageClassName": "StorageClass",
    "deviceClassName": "DeviceClass",
    "resourceClaimName": "ResourceClaim",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
    "kueue.x-k8s.io/queue-name": "LocalQueue",
    "kueue.x-k8s.io/priority-class": "WorkloadPriorityClass",
    "driver": "CSIDriver",
}
SHOWN = (
    "crd|csidriver|deviceclass|localqueues.kueue.x-k8s.io|priorityclass|pvc|resourceclaim|resourceclaimtemplate"
    "|runtimeclass|storageclass|workloadpriorityclasses.kueue.x-k8s.io"
)

Stack = dict[str, Rendered]


def found_anywhere(value: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of what an object names and needs, wherever it stands."""
    if isinstance(value, list):
        for each in value:
            yield from found_anywhere(each)
    if not isinstance(value, dict) or value.get("optional") is True:
        return
    for key, each in value.items():
        if key in NAMES and isinstance(each, str) and each:
            yield NAMES[key], each
        if key in MAPS and isinstance(each, dict) and "name" in each and each.get("optional") is not True:
            yield MAPS[key], each["name"]
        if key == "imagePullSecrets":
            yield from (("Secret", one["name"]) for one in each)
        yield from found_anywhere(each)


def made(objects: list[Object]) -> set[tuple[str, str]]:
    """Return kind and name of the objects, of what KubeRay makes for a cluster, and of what is always there."""
    found = {(each["kind"], each["metadata"]["name"]) for each in objects}
    found |= {("Secret", name) for kind, name in found if kind == "RayCluster"}
    return found | {("PriorityClass", "system-node-critical")}


def definitions(objects: list[Object]) -> set[tuple[str, str]]:
    groups = [(each["kind"].lower(), each["apiVersion"].rpartition("/")[0]) for each in objects]
    own = [(kind, group) for kind, group in groups if "." in group and not group.endswith(".k8s.io")]
    return {("CustomResourceDefinition", f"{kind}s.{group}") for kind, group in own}


def of_layer(needs: list[Need], objects: list[Object]) -> set[str]:
    """Return the commands for what the objects of one layer name."""
    return {commands.command(each) for each in needs if any(one.item in objects for one in each.sources)}


def of_notes(rendered: Rendered) -> set[str]:
    """Return the commands of the notes for what others make, and nothing that a look around is for."""
    lines = {" ".join(line.split()) for line in (rendered.notes or "").splitlines()}
    pattern = rf"kubectl (create (secret|configmap|serviceaccount) .*|get ({SHOWN}) [^-].*)"
    return {line for line in lines if re.fullmatch(pattern, line)}


CASES: list[tuple[str, str, str]] = [(machine, recipe, "") for recipe in RECIPES for machine in ACCELERATORS]
CASES += [("eks-h200", "llama3.1-8b-math-2n", EVERYTHING), ("aks-h200", "smoke", CLAIM)]
CASES += [("eks-h200", "llama3.1-8b-math-2n", EVERYTHING + OF_ITS_OWN)]


@pytest.mark.parametrize(("machine", "recipe", "extra"), thin(CASES, 12))
def test_guide_and_notes_name_every_referenced_object_that_no_chart_creates(
    machine: str, recipe: str, extra: str, render_text: Callable[..., Rendered], tmp_path: Path
) -> None:
    files = stack_files(machine, recipe)
    if extra:
        (tmp_path / "more.yaml").write_text(extra, encoding="utf-8")
        files.append(tmp_path / "more.yaml")
    rendered = {layer: render_text(layer, files=files) for layer in LAYERS}
    objects = [each for layer in LAYERS for each in rendered[layer].documents]
    needs = needed.needs(objects, NAMESPACE)
    named = {each for item in objects for each in found_anywhere(item)} | definitions(objects)
    assert {(each.kind, each.name) for each in needs} == named - made(objects)
    for layer in LAYERS:
        assert of_notes(rendered[layer]) == of_layer(needs, [*rendered[layer].documents]), layer
    wanted = sorted(map(commands.command, needs))
    assert len(set(wanted)) == len(wanted)
    page = guide.of_files(
        [str(file) for file in files], NAMESPACE, prerequisites=lambda: prerequisites.of_objects(objects, NAMESPACE)
    )
    lines = [line.partition("  #")[0] for line in pages.commands(page)]
    begin = lines.index(f"kubectl create namespace {NAMESPACE}") + 1
    end = next(at for at, line in enumerate(lines) if re.match(r"helm install \S+-storage ", line))
    assert sorted(line for line in lines[begin:end] if not line.startswith("kubectl label")) == wanted
    # Elsewhere the page only looks at what it has installed.
    assert not {*lines[:begin], *lines[end:]} & {*wanted}


def test_printed_commands_read_secrets_from_files() -> None:
    """Keys have the names of their variables, and what is read whole has one of its own."""
    stack = yaml.safe_load("""
    - kind: Pod
      metadata: {name: p, namespace: rl}
      spec:
        volumes:
          - {name: a, secret: {secretName: whole}}
          - {name: b, configMap: {name: map, optional: true}}
        containers:
          - env:
              - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: s, key: token}}}
              - {name: OTHER, valueFrom: {secretKeyRef: {name: s, key: other.key}}}
              - {name: MAYBE, valueFrom: {secretKeyRef: {name: maybe, key: k, optional: true}}}
            envFrom: [{secretRef: {name: all-of-it}}]
            volumeMounts: [{name: a, mountPath: /a}]
        imagePullSecrets: [{name: registry}]
    """)
    assert [commands.command(each) for each in needed.needs(stack, "other")] == [
        "kubectl create secret generic all-of-it --namespace rl --from-env-file=ALL_OF_IT_FILE",
        "kubectl create secret generic registry --namespace rl --from-file=.dockerconfigjson=DOCKER_CONFIG_FILE"
        " --type=kubernetes.io/dockerconfigjson",
        "kubectl create secret generic s --namespace rl --from-file=other.key=OTHER_FILE"
        " --from-file=token=HF_TOKEN_FILE",
        "kubectl create secret generic whole --namespace rl --from-file=WHOLE_FOLDER",
    ]
