"""The charts take what a problem of values calls good, and refuse what a problem says that they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.helm.engines import Engine
from grpo.problems.cases import Case
from postrender.errors import RenderError
from postrender.problem import Fails
from tests.conftest import ROOT, thin
from tests.problems.test_values_rules import BY_ID, TABLES, files

CASES = [case for found in TABLES.values() for case in found]
GOOD = [case for case in CASES if not case.bad]
OF_CHARTS = [case for case in CASES if case.bad and BY_ID[case.id].fails == Fails.AT_RENDER]


def render(helm: Engine, case: Case, folder: Path) -> None:
    """Render the cluster and the job of a case; raise RenderError where a chart refuses it."""
    for layer in ("raycluster", "grpo-job"):
        helm.render(str(ROOT / "charts" / layer), files(case, folder), release=layer, namespace="team-a")


@pytest.mark.parametrize("case", thin([(case,) for case in GOOD], 192), ids=str)
def test_good_examples_render(case: Case, helm: Engine, tmp_path: Path) -> None:
    render(helm, case, tmp_path)


@pytest.mark.parametrize("case", thin([(case,) for case in OF_CHARTS], 8), ids=str)
def test_examples_marked_as_rejected_are_rejected(case: Case, helm: Engine, tmp_path: Path) -> None:
    with pytest.raises(RenderError):
        render(helm, case, tmp_path)
