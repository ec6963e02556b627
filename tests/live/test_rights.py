"""examples/team/live.yaml names what the commands ask for, and nothing else but the ways into a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.cluster import definitions
from grpo.cluster.expected import Expected
from grpo.live import collection
from grpo.live.client import Cluster

LIVE = Path(__file__).resolve().parents[2] / "examples/team/live.yaml"
# What programs in pods need; a namespace's own Secrets are left out on purpose.
PODS = {("", "pods/exec"), ("", "pods/log")}
SECRETS = ("", "secrets")

Resource = tuple[str, str]


def granted(kind: str) -> set[Resource]:
    """The groups and resources of a role in the example."""
    rules = [rule for each in yaml.safe_load_all(LIVE.read_text()) if each["kind"] == kind for rule in each["rules"]]
    return {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}


def resource(path: str) -> tuple[Resource, bool]:
    """The group and the resource of a path, and whether it lies in a namespace of the stack."""
    words = path.strip("/").split("/")
    group, rest = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
    inside = rest[:2] == ["namespaces", "rl"]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return (group, rest[0]), inside


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Resource, bool]]:
    """What the commands ask a cluster that answers nothing."""
    paths: list[str] = []

    def items(_: Cluster, path: str, **__: Any) -> list[dict[str, Any]]:
        paths.append(path)
        return []

    def get(_: Cluster, path: str, **__: Any) -> dict[str, Any]:
        paths.append(path)
        return {}

    monkeypatch.setattr(Cluster, "items", items)
    monkeypatch.setattr(Cluster, "get", get)
    cluster = Cluster(None, None, "c", "rl")  # type: ignore[arg-type]
    collection.collect(cluster, "s", lambda: Expected("s", "rl", {}, {}), with_logs=True)
    assert set(definitions.PATHS) <= set(paths)
    # Discovery is open to everybody who is logged in.
    return [resource(path) for path in paths if path not in ("/apis", "/version")]


def test_the_role_grants_exactly_what_is_read_in_the_namespace(asked: list[tuple[Resource, bool]]) -> None:
    assert granted("Role") - PODS == {each for each, inside in asked if inside} - {SECRETS}


def test_the_cluster_role_grants_exactly_what_is_read_outside(asked: list[tuple[Resource, bool]]) -> None:
    assert granted("ClusterRole") == {each for each, inside in asked if not inside}


def test_no_role_may_change_an_object() -> None:
    verbs = {
        verb
        for each in yaml.safe_load_all(LIVE.read_text())
        for rule in each.get("rules", ())
        if rule["resources"] != ["pods/exec"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list"}
