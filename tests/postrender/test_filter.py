"""The post-renderer copies a stream byte for byte, or refuses it and says where the secret is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrender import filter as post_render
from postrender import tokens
from tests.conftest import ROOT, require_tool
from tests.postrender.test_tokens import EXAMPLES

START = "import sys; from postrender.filter import main; sys.exit(main())"
SECRET = EXAMPLES["huggingface"]
STREAM = f"""\
---
# Source: app/templates/a.yaml
kind: A
---
# Source: app/templates/b.yaml
kind: B
env: {SECRET}
"""


def run(data: bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the filter as Helm does."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HELM_")}
    return subprocess.run(
        [sys.executable, "-c", START, *arguments],
        check=False,
        input=data,
        capture_output=True,
        cwd=ROOT,
        env={**kept, **environment},
    )


@pytest.mark.parametrize(
    "data", [b"", b"---\na: 1\n", b"\xff\x00 no yaml\r\n", "a: ü\u2028".encode(), b"x" * 5_000_000]
)
def test_a_stream_without_secrets_is_copied_byte_for_byte(data: bytes) -> None:
    done = run(data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


@settings(max_examples=50)
@given(data=st.binary(max_size=200))
def test_any_bytes_without_a_secret_pass(data: bytes) -> None:
    assert post_render.refusals(data) == []


def test_a_secret_is_refused_by_place_and_shape_and_not_shown() -> None:
    done = run(STREAM.encode())
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "grpo-post-render: refused, nothing was passed on\n"
        "  document 2 (app/templates/b.yaml), line 7: looks like a secret of the kind huggingface\n"
        "  fix: revoke it, put the new one into a Kubernetes Secret and refer to that by name\n"
    )


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_is_refused_in_any_bytes(shape: str) -> None:
    (line,) = post_render.refusals(b"\xff\n" + EXAMPLES[shape].encode())
    assert line == f"document 1, line 2: looks like a secret of the kind {shape}"


def test_a_plugin_of_helm_4_answers_with_a_text_that_helm_shows() -> None:
    done = run(STREAM.encode(), HELM_PLUGIN_NAME="grpo-post-render")
    assert done.returncode == 0
    assert done.stdout.decode().startswith("|\n  grpo-post-render: refused")
    assert SECRET.encode() not in done.stdout + done.stderr


def test_help_says_what_this_version_does_not_do() -> None:
    done = run(b"", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"wiring charts that are not ours is not part of it" in done.stdout


def test_an_argument_is_refused() -> None:
    done = run(b"a: 1", "--report")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"grpo-post-render: no argument was expected, found '--report'; see --help\n"


def test_a_reader_that_has_gone_ends_it_without_a_traceback() -> None:
    command = (
        f"head -c 5000000 /dev/zero | {sys.executable} -c '{START}' | head -c 1 >/dev/null; echo ${{PIPESTATUS[1]}}"
    )
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "3\n"
    assert done.stderr == "grpo-post-render: [Errno 32] Broken pipe\n"


def test_it_starts_without_anything_large() -> None:
    code = "import sys; import postrender.filter; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert not {"yaml", "yaml12", "json", "argparse", "jsonschema_rs", "typing", "subprocess"} & {*loaded.split()}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Make a chart that renders whatever it is given."""
    chart = tmp_path / "app"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    (chart / "templates/a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Values.a }}}\n"
    )
    return chart


def template(
    program: Path, chart: Path, renderer: str, value: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with the post-renderer."""
    return subprocess.run(
        [program, "template", "r", chart, "--set", f"a={value}", "--post-renderer", renderer],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_helm_3_shows_the_refusal(chart: Path, tmp_path: Path) -> None:
    program = require_tool("helm3")
    script = tmp_path / "grpo-post-render"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{START}'\n")
    script.chmod(0o755)
    good = template(program, chart, str(script), "fine")
    assert (good.returncode, "a: fine" in good.stdout) == (0, True)
    bad = template(program, chart, str(script), SECRET)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "looks like a secret of the kind huggingface" in bad.stderr
    assert SECRET not in bad.stderr


def test_helm_4_shows_the_refusal(chart: Path, tmp_path: Path) -> None:
    program = require_tool("helm4")
    plugin = tmp_path / "plugins/grpo-post-render"
    plugin.mkdir(parents=True)
    (plugin / "plugin.yaml").write_text(
        "apiVersion: v1\ntype: postrenderer/v1\nname: grpo-post-render\nversion: 0.1.0\nruntime: subprocess\n"
        f"runtimeConfig:\n  platformCommand:\n  - command: {sys.executable}\n    args: ['-c', '{START}']\n"
    )
    plugins = str(plugin.parent)
    good = template(program, chart, "grpo-post-render", "fine", HELM_PLUGINS=plugins)
    assert (good.returncode, "a: fine" in good.stdout) == (0, True)
    bad = template(program, chart, "grpo-post-render", SECRET, HELM_PLUGINS=plugins)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "looks like a secret of the kind huggingface" in bad.stderr
    assert SECRET not in bad.stderr


def test_a_missing_list_of_shapes_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tokens, "_shapes", {})
    monkeypatch.setattr("postrender.paths.tokens", lambda: "/none/tokens.yaml")
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115 (pytest closes nothing here, the next line does)
    with sys.stdin:
        assert post_render.main([]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "grpo-post-render: the list of token shapes cannot be read: /none/tokens.yaml"
    assert len(said) == 2
