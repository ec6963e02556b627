"""What the objects name but no chart creates: Secrets and ConfigMaps with their keys, service accounts, classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.cluster.objects import name_of
from grpo.manifests.needs import commands, references
from grpo.manifests.needs.needed import Need, Source
from grpo.manifests.needs.references import PULL_KEY
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from postrender.manifests.apiserver import plural
from postrender.manifests.pods import sequence

# The values behind variables that the charts set; every other one stands under ray.env.
_VARIABLES: Final = {"HF_TOKEN": "huggingface", "WANDB_API_KEY": "tracking.wandb"}
# The volumes of accelerator.files.
_FILE: Final = "file-"
# What a pod's spec names by a key of its own, which the values have under podSpec.
_OF_SPEC: Final = ("imagePullSecrets", "priorityClassName", "runtimeClassName", "resourceClaims")


def value_of(need: Need, expected: Expected) -> str:
    """Return the values key behind a need, preferring the one that the Ray pods use."""
    found = [_value(each, expected) for each in need.sources]
    return next((each for each in found if each), "")


def _value(source: Source, expected: Expected) -> str:
    reference, path = source.reference, source.reference.path
    section = "ray.head" if "headGroupSpec" in path else "ray.workers" if "workerGroupSpecs" in path else ""
    if reference.kind == "ServiceAccount":
        return "stack.names.serviceAccount"
    if not section:
        return ""
    if of_spec := [str(each) for each in path if each in _OF_SPEC]:
        return f"{section}.podSpec.{of_spec[0]}"
    if "volumes" in path:
        if reference.taken_by.startswith(_FILE):
            return f"accelerator.files.{reference.taken_by.removeprefix(_FILE)}.configMap"
        return f"{section}.volumes.{reference.taken_by}"
    return _of_variable(reference.taken_by, section, expected) if "env" in path else section


def _of_variable(name: str, section: str, expected: Expected) -> str:
    own = f"{section}.env.{name}.secret"
    usual = f"{_VARIABLES[name]}.secret" if name in _VARIABLES else f"ray.env.{name}.secret"
    return own if own in expected.places else usual


@probe("secrets", "a Secret that the pods read, or a key of it, is missing", "secrets")
def secrets(evidence: Evidence) -> Iterator[Result]:
    """Check only the names and keys of Secrets; their values are never read."""
    for need in evidence.expected.needs("Secret"):
        if PULL_KEY not in need.keys:
            yield from _keys(need, "secrets", evidence)


@probe("config-maps", "a ConfigMap that the pods read, or a key of it, is missing", "configmaps")
def config_maps(evidence: Evidence) -> Iterator[Result]:
    """Check the ConfigMaps that no chart creates."""
    for need in evidence.expected.needs("ConfigMap"):
        yield from _keys(need, "configmaps", evidence)


def _keys(need: Need, kind: str, evidence: Evidence) -> Iterator[Result]:
    for key in need.keys or ("",):
        sources = tuple(each for each in need.sources if key in (each.reference.keys or ("",)))
        value = value_of(dataclasses.replace(need, sources=sources), evidence.expected)
        yield _has_key(need, key, value, evidence.find(kind, need.name))


def _has_key(need: Need, key: str, value: str, found: dict[str, object] | None) -> Result:
    """Check one object and one of its keys.

    The API server records in the metadata which keys an object was given; an old object may have no such record.
    """
    kind, name = need.kind, need.name
    by_hand = f"kubectl describe {kind.lower()} {name} -n {need.namespace}"
    wanted = f" with the key {key}" if key else ""
    keys = (found or {}).get("keys")
    if found is None:
        return failed(f"there is no {kind} {name}{wanted}", _leaf(value, "name"), commands.command(need), by_hand)
    if key and keys is None:
        return skipped(f"{kind} {name} is there; which keys it has is not noted", command=by_hand)
    if key and key not in sequence(keys):
        listed = ", ".join(map(str, sequence(keys)))
        text = f"{kind} {name} has no key {key}" + (f", only {listed}" if listed else ": it has no keys")
        fix = "name the key that it has, or add the key" if listed else "add the key"
        return failed(text, _leaf(value, "key"), fix, by_hand)
    return passed(f"{kind} {name} is there{wanted}", command=by_hand)


def _leaf(value: str, name: str) -> str:
    """Return the values key for a name or a key, if a values section holds both."""
    return f"{value}.{name}" if value.endswith(".secret") else value


@probe("accounts", "a service account or an image pull secret of the pods is missing", "serviceaccounts", "secrets")
def accounts(evidence: Evidence) -> Iterator[Result]:
    """Check the service accounts that the pods name, counting those that a chart creates."""
    expected = evidence.expected
    needed = {each.name: each for each in expected.needs("ServiceAccount")}
    named = {each.name for _, each in references.of_objects(expected.all()) if each.kind == "ServiceAccount"}
    there = {name_of(each) for each in evidence.of("serviceaccounts")}
    for name in sorted(named):
        text, by_hand = f"service account {name}", f"kubectl get serviceaccount {name} -n {expected.namespace}"
        if name in there or name not in needed:
            yield passed(f"{text} is there, or made by a chart", command=by_hand)
        else:
            fix = f"{commands.command(needed[name])}, or leave the name out"
            yield failed(f"there is no {text}", "stack.names.serviceAccount", fix, by_hand)
    for need in expected.needs("Secret"):
        if PULL_KEY in need.keys:
            yield _pull_secret(need, evidence)


def _pull_secret(need: Need, evidence: Evidence) -> Result:
    name, value, fix = need.name, value_of(need, evidence.expected), commands.command(need)
    by_hand = f"kubectl describe secret {name} -n {need.namespace}"
    found = evidence.find("secrets", name)
    keys = (found or {}).get("keys")
    if found is None:
        return failed(f"there is no image pull secret {name}", value, fix, by_hand)
    if keys is not None and PULL_KEY not in keys:
        return failed(f"Secret {name} has no key {PULL_KEY}: it pulls no image", value, fix, by_hand)
    return passed(f"image pull secret {name} is there", value, by_hand)


@probe("priority", "the priority class is missing", "priorityclasses")
def priority(evidence: Evidence) -> Iterator[Result]:
    """Check the priority classes that the pods name."""
    yield from there(evidence, evidence.expected.needs("PriorityClass"), "priority class")


@probe("runtime-classes", "the runtime class is missing", "runtimeclasses")
def runtime_classes(evidence: Evidence) -> Iterator[Result]:
    """Check the runtime classes that the pods name."""
    yield from there(evidence, evidence.expected.needs("RuntimeClass"), "runtime class")


@probe("resource-claims", "a resource claim of the pods is missing", "resourceclaims", "resourceclaimtemplates")
def resource_claims(evidence: Evidence) -> Iterator[Result]:
    """Check the claims and claim templates that the pods name but no chart creates."""
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        yield from there(evidence, evidence.expected.needs(kind), kind)


def there(evidence: Evidence, needs: Iterable[Need], called: str, value: str = "") -> Iterator[Result]:
    """Check the objects that are named but created by no chart, by name only.

    `called` is the kind's name in messages, and `value` the values key behind it if the pods do not determine one.
    """
    for need in needs:
        at, by_hand = value_of(need, evidence.expected) or value, commands.command(need)
        if evidence.find(plural(need.kind), need.name):
            yield passed(f"{called} {need.name} is there", at, by_hand)
        else:
            yield failed(f"there is no {called} {need.name}", at, commands.hint(need), by_hand)
