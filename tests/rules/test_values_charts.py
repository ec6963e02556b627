"""The charts take what a rule over values calls good, and refuse what a rule says that they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.helm.engines import Engine
from postrender.errors import RenderError
from postrender.problem import Fails
from tests.conftest import ROOT, thin
from tests.rules.test_values_rules import BAD, BY_ID, GOOD, files

OF_CHARTS = [file for file in BAD if BY_ID[file.parent.as_posix()].fails == Fails.AT_RENDER]


def render(helm: Engine, file: Path) -> None:
    """Render the cluster and the job of a fixture; raise RenderError where a chart refuses it."""
    for layer in ("raycluster", "grpo-job"):
        helm.render(str(ROOT / "charts" / layer), files(file), release=layer, namespace="team-a")


@pytest.mark.parametrize("file", thin(GOOD, 96), ids=str)
def test_what_is_good_renders(file: Path, helm: Engine) -> None:
    render(helm, file)


@pytest.mark.parametrize("file", thin(OF_CHARTS, 4), ids=str)
def test_what_is_said_to_be_refused_is_refused(file: Path, helm: Engine) -> None:
    with pytest.raises(RenderError):
        render(helm, file)
