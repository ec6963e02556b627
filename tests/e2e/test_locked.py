"""The API server refuses the changes that `grpo diff` calls locked, and no others."""

from __future__ import annotations

import pytest
import yaml

from conftest import REPOSITORY, NewStack
from harness.controlplane import ControlPlane
from harness.kube import Kube, KubectlError, Manifest
from harness.stack import merge

pytestmark = pytest.mark.ci

CASES = yaml.safe_load((REPOSITORY / "tests/e2e/locked.yaml").read_text(encoding="utf-8"))
REFUSED = "(?i)immutable|forbidden|cannot change|only dynamically provisioned|only bound"


def test_changes_to_locked_fields_are_refused_and_others_pass(
    new_stack: NewStack, kube: Kube, control_plane: ControlPlane
) -> None:
    control_plane.server.apply_crds("jobset-crds")
    namespace = new_stack("b200").namespace
    made: list[Manifest] = []
    try:
        for case in CASES:
            if "unasked" in case:
                continue
            item = case["object"]
            kube.apply([item], namespace)
            made.append(item)
            for change in case.get("allowed", []):
                kube.apply([merge(item, change)], namespace, dry_run=True)
            for change in case.get("refused", []):
                with pytest.raises(KubectlError, match=REFUSED):
                    kube.apply([merge(item, change)], namespace, dry_run=True)
    finally:
        for item in made:
            kube.run("delete", "-f", "-", "--namespace", namespace, "--wait=false", stdin=yaml.safe_dump(item))
