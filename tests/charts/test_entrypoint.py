"""No value runs as a command in the entrypoint, also where Helm does not ask the schema (--skip-schema-validation)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.charts import shapes
from tests.charts.test_contract import everything, leaf_paths
from tests.charts.test_grpo_job import rayjob
from tests.conftest import ROOT, thin

RenderText = Callable[..., Rendered]

ATTACK = "x'\"\nGRPO_PLAN\nGRPO_FILE\nGRPO_PROGRAMS\ntouch ATTACK; $(touch ATTACK) `touch ATTACK`\r\ntouch ATTACK #"
HERE_DOCUMENT = re.compile(r"<<'(GRPO_\w+)'(.*)\n(?:.*\n)*?\1\n")
TEXTS = [path for path in leaf_paths() if isinstance(shapes.lookup(everything(), path), str)]


@pytest.fixture
def unchecked(tmp_path: Path, render_text: RenderText) -> Callable[[dict[str, Any]], str]:
    """Return the entrypoint of everything with some values, by a chart without its schema."""
    for folder in ("charts", "values", "jobs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    chart = tmp_path / "charts/grpo-job"
    (chart / "values.schema.json").unlink()

    def entrypoint(values: dict[str, Any]) -> str:
        rendered = render_text("grpo-job", shapes.merge(everything(), values), files=[], chart=chart)
        return str(rayjob(rendered.documents)["spec"]["entrypoint"])

    return entrypoint


def shell(entrypoint: str) -> str:
    """Return what sh reads as commands."""
    return HERE_DOCUMENT.sub(r"\2\n", entrypoint)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"job": {"name": ATTACK}}, "job.name is "),
        ({"job": {"name": "a\ntouch ATTACK"}}, "job.name is "),
        ({"job": {"rewards": {ATTACK: {"file": "pass\n"}}}}, "a name under job.rewards is "),
        ({"job": {"rewards": {"$(touch ATTACK)": {"file": "pass\n"}}}}, "a name under job.rewards is "),
        ({"job": {"prompts": {"`touch ATTACK`": "{}"}}}, "a name under job.prompts is "),
        ({"job": {"prompts": {"../../x": "{}"}}}, "a name under job.prompts is "),
        ({"job": {"prompts": {"mine": ATTACK}}}, "job.prompts.mine "),
    ],
)
def test_text_the_shell_would_execute_is_refused(
    values: dict[str, Any], says: str, unchecked: Callable[[dict[str, Any]], str]
) -> None:
    with pytest.raises(RenderError, match=re.escape(says)):
        unchecked(values)


@pytest.mark.parametrize("path", thin([(each,) for each in TEXTS], 36), ids=".".join)
def test_no_value_can_inject_a_shell_command(path: shapes.Path_, unchecked: Callable[[dict[str, Any]], str]) -> None:
    try:
        attacked = unchecked(shapes.nested(path, ATTACK))
    except RenderError:
        return
    assert "ATTACK" not in shell(attacked)
    assert len(shell(attacked).splitlines()) == len(shell(unchecked({})).splitlines())
