"""The programs of jobs/ in the entrypoint: packed, not locked, and named by their version."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import shutil
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.generate import programs
from grpo.helm.engines import Rendered
from grpo.manifests import folds
from tests.charts.test_grpo_job import lock, plan, rayjob
from tests.conftest import ROOT, Object, Render, thin
from tests.programs import PROGRAMS, carried

ARCHIVE = ROOT / programs.FOLDER / "train.tar.bz2.b64"
REWARDS = {"job": {"rewards": {"mine": {"file": "def mine(*a, **k):\n    return 0.5\n"}}}}


@pytest.fixture
def newer(tmp_path: Path, render_text: Callable[..., Rendered]) -> list[Object]:
    """Render a chart of a newer version, in whose programs one line differs."""
    for folder in ("charts", "values", "jobs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    program = tmp_path / "jobs/launcher/launch.py"
    program.write_text(program.read_text("utf-8") + "newer = True\n", "utf-8")
    for path, text in programs.render(tmp_path).items():
        (tmp_path / path).write_text(text, "utf-8")
    chart = tmp_path / "charts/grpo-job"
    meta = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**meta, "version": "0.1.1"}), "utf-8")
    return list(render_text("grpo-job", chart=chart).documents)


def version(objects: list[Object]) -> str:
    """Return the version of the programs, which the entrypoint gives to the launcher."""
    return str(rayjob(objects)["spec"]["entrypoint"].splitlines()[-1].split("'")[1])


def test_a_change_of_the_programs_does_not_change_the_lock(newer: list[Object], render: Render) -> None:
    """The upgrade of a fleet to a newer chart is not refused by the lock of each run."""
    older = render("grpo-job")
    assert lock(newer)["data"] == lock(older)["data"]
    assert plan(newer) == plan(older)
    assert carried(rayjob(newer)["spec"]["entrypoint"])["__main__.py"].endswith("newer = True\n")


def test_the_version_names_the_chart_and_the_archive(newer: list[Object], render: Render) -> None:
    digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
    assert version(render("grpo-job")) == f"grpo-job 0.1.0, sha256 {digest}"
    assert version(newer).startswith("grpo-job 0.1.1, sha256 ")
    assert digest not in version(newer)


def test_the_digest_is_that_of_the_locked_spec(render: Render) -> None:
    """So anybody can see what an attempt was refused for."""
    data = lock(render("grpo-job"))["data"]
    assert hashlib.sha256(data["spec.yaml"].removesuffix("\n").encode()).hexdigest() == data["digest"]


def test_the_entrypoint_is_readable_except_for_the_programs(render: Render) -> None:
    """Ray writes all of it into the driver's log: first which run this is, then the plan, then the user's files."""
    text = rayjob(render("grpo-job", REWARDS))["spec"]["entrypoint"]
    beginning, _, packed = text.partition("base64 -d <<'GRPO_PROGRAMS'")
    assert beginning.startswith("# Attempt 1 of run gemma3-gsm8k: ")
    assert "\n    return 0.5\n" in beginning
    assert "import " not in beginning
    shell = dict(folds.parts(text))["shell"]
    assert len(shell.splitlines()) <= 20
    assert packed.splitlines()[-1].startswith('exec python3 -I "$programs" ')


def test_the_lock_drops_our_comments_and_keeps_the_users(render: Render) -> None:
    """Another wording of ours refuses no upgrade. In the user's files a # may be text, so each line counts."""
    locked = yaml.safe_load(lock(render("grpo-job", REWARDS))["data"]["spec.yaml"])["entrypoint"]
    shell = re.sub(r"<<'(GRPO_\w+)'.*?^\1$", "", locked, flags=re.DOTALL | re.MULTILINE)
    assert "exec python3" in shell
    assert not re.search(r"(^|\s)#", shell)
    commented = {"job": {"rewards": {"mine": {"file": REWARDS["job"]["rewards"]["mine"]["file"] + "# why\n"}}}}
    assert "# why" in lock(render("grpo-job", commented))["data"]["spec.yaml"]


def test_the_same_programs_make_the_same_archive() -> None:
    files = programs.files(ROOT, "train")
    assert programs.pack(files) == programs.pack(files)
    assert folds.unpacked(programs.pack(files)) == files


def meaning(source: str) -> str:
    """Return the syntax tree of a program as text, with empty docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Expr(ast.Constant(""))
    return ast.dump(tree)


@pytest.mark.parametrize(
    "source",
    [
        *thin([path.read_text("utf-8") for path in PROGRAMS.values()], 4),
        pytest.param('def f():\n    """Only."""\n\n\nclass A:\n    "a"; b = 1  # c\n', id="one statement"),
        pytest.param('x = """\n# no comment\n   \n"""  # ein Kommentar: ü\ny = "ü"  # "\n', id="texts"),
        pytest.param('"""Módulo\n\nof three lines."""\ndef f(): "ü"; return 1', id="no line break at the end"),
    ],
)
def test_stripping_comments_and_docstrings_keeps_line_numbers(source: str) -> None:
    short = programs.code(source)
    assert ast.dump(ast.parse(short)) == meaning(source)
    assert short.count("\n") == source.count("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(short).readline))
    assert not any(token.type == tokenize.COMMENT for token in tokens)


@pytest.mark.full
def test_an_archive_is_rewritten_only_when_its_content_changes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "jobs", tmp_path / "jobs")
    path = f"{programs.FOLDER}/clean.tar.bz2.b64"
    archive = tmp_path / path
    archive.parent.mkdir(parents=True)
    # Other bytes with the same content.
    archive.write_text(programs.render(tmp_path)[path].replace("\n", "\n\n"))
    assert programs.render(tmp_path)[path] == archive.read_text()
    with (tmp_path / "jobs/tasks/clean.py").open("a") as file:
        file.write("changed = True\n")
    now = programs.render(tmp_path)[path]
    assert folds.unpacked(now)["clean.py"].endswith("changed = True\n")


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA", ARCHIVE.read_text("utf-8")[:400]])
def test_text_that_is_not_an_archive_has_no_programs(text: str) -> None:
    assert folds.unpacked(text) == {}
