"""Compute the names and flags for the guide's template from a stack's values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from grpo.helm.stack import installs_network
from grpo.manifests.needs import commands
from grpo.manifests.needs.needed import Need
from grpo.manifests.needs.prerequisites import Prerequisites
from grpo.start import machines, training
from grpo.start.words import Names, Tree, bucket, is_autopilot, is_google, listed, only, volume, weights_bucket
from grpo.values import capacity
from grpo.values.set_arguments import Argument

OPERATOR = (
    "helm install kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ --version 1.6.2"
    " --namespace ray-system --create-namespace"
)


class Shown(NamedTuple):
    """What the page shows besides the values.

    `files` are the values files, `charts` is the charts' folder, `recipe` is the recipe file and `header`
    the comment at its top. `example` is the site file that the reader copies; it is empty if the names are already the
    reader's own. `arguments` are those of --set and its relatives. `prerequisites` are those of the rendered charts.
    """

    files: tuple[str, ...]
    charts: str
    recipe: str
    header: str
    namespace: str = "rl"
    example: str = ""
    arguments: tuple[Argument, ...] = ()
    prerequisites: Prerequisites = Prerequisites()


def flags(tree: Tree, shown: Shown) -> dict[str, bool]:
    """Return which parts of the template apply to this stack."""
    mode, google = tree["network"]["mode"], is_google(tree)
    installs_plugin = tree["network"]["rdmaInstaller"]["enabled"]
    return {
        "example": bool(shown.example),
        "google": google,
        "standard": tree["platform"]["kind"] == "gke-standard",
        "autopilot": is_autopilot(tree),
        "not_sold": bool(capacity.instead(tree)),
        "waits": machines.waits(tree),
        "attached": google and mode == "multiNetwork",
        "rdma": mode != "none",
        "eks": machines.is_eks(tree) and mode != "none",
        "net": bool(machines.network_of_nccl(tree)),
        "network": installs_network(tree),
        "applies_installer": google and mode != "none" and not installs_plugin,
        "privileged": bool(machines.forbidden(tree)),
        "limited": tree["network"]["podPolicy"]["enabled"],
        "made": any(map(commands.creates, shown.prerequisites.needs)),
        "secrets": any(each.kind == "Secret" for each in shown.prerequisites.needs),
        "config_maps": any(each.kind == "ConfigMap" for each in shown.prerequisites.needs),
        "checked": not all(map(commands.creates, shown.prerequisites.needs)),
        "nvlink": bool(tree["accelerator"].get("nvlinkDomainNodes")),
        "bucket": bool(bucket(tree)),
        "weights": bool(weights_bucket(tree)),
        "installs_claim": not volume(tree).get("existingClaim"),
        "prepares": training.needs_data(tree, shown.prerequisites.files),
        "own_files": bool(training.own_files(shown.prerequisites.files)),
        "own_data": training.reads_own_data(tree, shown.prerequisites.files),
        "uploads": bool(training.uploads(tree, shown.prerequisites.files, shown.namespace)),
        "nemo_rl": tree["job"]["framework"] != "verl",
        "evaluates": bool(tree["job"]["evaluate"]["benchmarks"]),
        "sized": "disk" in training.sizes(shown.header, tree),
        "counted": "kept" in training.sizes(shown.header, tree),
        "sold": "claim_size" in training.sizes(shown.header, tree),
        "merges": not training.merges_in_pieces(tree),
        "weighed": "weights" in training.sizes(shown.header, tree),
        "queue": bool(tree["ray"]["kueue"]["queue"]),
        "ephemeral": tree["job"]["cluster"]["mode"] == "ephemeral",
        "gpu_head": bool(tree["ray"]["head"]["gpus"]["enabled"]),
    }


def names(tree: Tree, shown: Shown) -> Names:
    """Return all template names that apply to this stack."""
    only(tree["stack"]["wiring"]["enabled"], "stack.wiring.enabled false, with which the post-renderer wires the pods")
    found = {**machines.machine(tree), **machines.networks(tree), **machines.head(tree), **machines.table()}
    found |= {"forbidden": listed(machines.forbidden(tree)), **_needs(shown.prerequisites.needs)}
    found |= {**_places(tree, shown), **training.jobs(tree), **training.settings(tree, shown.prerequisites.files)}
    found |= {**training.header(shown.header, tree), **training.sizes(shown.header, tree)}
    recipe = shown.recipe.rpartition("/")[2].removesuffix(".yaml")
    return found | {
        "uploads": training.uploads(tree, shown.prerequisites.files, shown.namespace),
        "operator": OPERATOR,
        "efa_driver": (
            "AWS's chart `aws-dranet`"
            if tree["network"]["mode"] == "dranet"
            else "AWS's device plugin (chart `aws-efa-k8s-device-plugin`)"
        ),
        "recipe": recipe,
        "site": shown.example,
        "charts": shown.charts,
        "files": " ".join([f"-f {name}" for name in shown.files] + [shlex.join(each) for each in shown.arguments]),
        "cpu_head": " --set ray.head.gpus.enabled=false" if tree["ray"]["head"]["gpus"]["enabled"] else "",
    }


def _needs(needs: Sequence[Need]) -> Names:
    """Return the commands for objects that the charts reference but do not create, and the ConfigMaps' contents."""
    maps = [each for each in needs if each.kind == "ConfigMap"]
    keys = [(listed([f"`{key}`" for key in each.keys]), each.name) for each in maps]
    return {
        "made": "\n".join(commands.explained(each) for each in needs if commands.creates(each)),
        "checked": "\n".join(commands.explained(each) for each in needs if not commands.creates(each)),
        "config_maps": listed([f"{f'{files} of ' if files else ''}the ConfigMap `{name}`" for files, name in keys]),
    }


def _places(tree: Tree, shown: Shown) -> Names:
    """Return the project, bucket or claim, Secret and service account."""
    stack, platform, job, place = tree["stack"], tree["platform"], tree["job"], volume(tree)
    claim = place.get("existingClaim") or {}
    made = place.get("pvc") or {}
    simple = bucket(tree) or (claim and not claim.get("gcsfuse")) or (made and not made.get("lustre"))
    only(
        simple,
        f"storage.{job['volume']} of this kind, only for a bucket, an existing claim and a claim of a storage class",
        "the notes of storage say what it needs: grpo render storage --notes",
    )
    given = stack.get("names") or {}
    account = given.get("serviceAccount") or stack["name"]
    pool = f"projects/{platform['projectNumber']}/locations/global/workloadIdentityPools/{platform['projectId']}"
    subject = f"ns/{shown.namespace}/sa/{account}"
    return {
        "project": platform["projectId"],
        "namespace": shown.namespace,
        "stack": stack["name"],
        "cluster": given.get("cluster") or f"{stack['name']}-ray",
        "account": account,
        "member": f"principal://iam.googleapis.com/{pool}.svc.id.goog/subject/{subject}",
        "bucket": bucket(tree),
        "weights_bucket": weights_bucket(tree),
        "claim": claim.get("name") or f"{stack['name']}-{job['volume']}",
        "test_timeout": str(2 * tree["ray"]["test"]["timeoutSeconds"]),
    }
