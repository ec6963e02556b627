"""The size of a claim that holds a size: as file systems are sold."""

from __future__ import annotations

import pytest

from grpo.plan import planner
from grpo.plan.units import gib
from grpo.values.config import RunConfig
from postrender.values import merge
from tests.conftest import stack_files


@pytest.mark.parametrize(
    ("machine", "kind", "needs", "asked"),
    [
        ("eks-h200", "fsx-sc", 1000, 1200),
        ("eks-h200", "fsx-sc", 1201, 2400),
        ("eks-h200", "shared", 7506, 9600),
        ("eks-h200", "efs-sc", 7506, 7506),
        ("b200", "shared", 7506, 7506),
    ],
)
def test_fsx_for_lustre_is_sold_in_steps(machine: str, kind: str, needs: int, asked: int) -> None:
    tree = merge.over_defaults(merge.load([*map(str, stack_files(machine))]))
    tree["storage"] = {"data": {"mountPath": "/data", "pvc": {"storageClassName": kind, "size": "1200Gi"}}}
    found, why = planner.claim(RunConfig(tree), gib(needs))
    assert (found, bool(why)) == (asked, machine == "eks-h200" and kind != "efs-sc")
