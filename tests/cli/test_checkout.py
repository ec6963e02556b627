"""With GRPO_CHECKOUT, no file outside of the checkout is read: who opens a pull request makes its links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from tests.conftest import stack_files

SECRET = "Correct-Horse7: [of the runner"
STACK = [word for path in stack_files() for word in ("-f", str(path))]
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout beside a file of the runner, `environ`, and a folder of it, `home`."""
    (tmp_path / "home").mkdir()
    for name in ("environ", "home/values.yaml", "home/x.yaml"):
        (tmp_path / name).write_text(SECRET)
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.setenv("GRPO_CHECKOUT", str(folder))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str]:
        return cli.main([*words]), "".join(capsys.readouterr())

    return run


def chart(folder: Path) -> Path:
    for name, text in {"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/a.yaml": "a: 1\n"}.items():
        (folder / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "c" / name).write_text(text)
    return folder / "c"


@pytest.mark.parametrize("form", ["text", "github", "json"])
def test_a_values_file_linked_from_outside_the_checkout_is_refused(checkout: Path, grpo: Run, form: str) -> None:
    (checkout / "my.yaml").symlink_to("../environ")
    code, said = grpo("lint", *STACK, "-f", "my.yaml", "--format", form)
    assert code == 2
    assert "my.yaml: this is outside of the checkout" in said or '"this is outside of the checkout"' in said
    assert "Horse" not in said


def test_values_outside_the_checkout_or_in_a_linked_folder_are_refused(checkout: Path, grpo: Run) -> None:
    (checkout / "home").symlink_to("../home")
    for name in ("../environ", "home/values.yaml", "/proc/self/environ"):
        code, said = grpo("lint", *STACK, "-f", name)
        assert (code, "outside of the checkout" in said, "Horse" in said) == (2, True, False)


@pytest.mark.parametrize("link", ["a.yaml", "deploy/a.yaml", "deploy/below"])
def test_manifests_linked_from_outside_the_checkout_are_refused(checkout: Path, grpo: Run, link: str) -> None:
    (checkout / "deploy").mkdir()
    (checkout / "deploy/b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (checkout / link).symlink_to(checkout.parent / ("environ" if link.endswith(".yaml") else "home"))
    code, said = grpo("check", link.partition("/")[0])
    assert (code, f"{link}: this is outside of the checkout" in said, "Horse" in said) == (2, True, False)


@pytest.mark.parametrize("link", ["c/templates/b.yaml", "c/files/b.txt", "c/charts/d", "c/values.yaml"])
def test_a_chart_with_a_link_out_of_the_checkout_is_refused(checkout: Path, grpo: Run, link: str) -> None:
    """Helm follows links too, and a template may print any file of its chart."""
    chart(checkout)
    (checkout / link).parent.mkdir(exist_ok=True)
    (checkout / link).symlink_to(checkout.parent / ("home" if link.endswith("/d") else "environ"))
    code, said = grpo("check", "c")
    assert (code, f"{link}: this is outside of the checkout" in said, "Horse" in said) == (2, True, False)


def test_a_link_out_of_the_checkout_behind_another_link_is_refused(checkout: Path, grpo: Run) -> None:
    chart(checkout)
    (checkout / "inside").mkdir()
    (checkout / "inside/x").symlink_to(checkout.parent / "environ")
    (checkout / "inside/loop").symlink_to(".")
    (checkout / "c/files").symlink_to("../inside")
    code, said = grpo("check", "c")
    assert (code, "outside of the checkout" in said, "Horse" in said) == (2, True, False)


@pytest.mark.parametrize("command", ["why", "report", "watch", "samples", "checkpoints"])
def test_logs_and_runs_linked_from_outside_the_checkout_are_refused(checkout: Path, grpo: Run, command: str) -> None:
    (checkout / "run/logs/exp_001").mkdir(parents=True)
    (checkout / "run/checkpoints").mkdir()
    (checkout / "run/logs/exp_001/train_data_step1.jsonl").symlink_to(checkout.parent / "environ")
    (checkout / "run/output.log").symlink_to(checkout.parent / "environ")
    code, said = grpo(command, "run" if command in ("samples", "checkpoints") else "run/output.log")
    assert (code, "outside of the checkout" in said, "Horse" in said) == (2, True, False)


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "http://localhost:1/x", "../../environ"])
def test_a_schema_cannot_reference_other_files(checkout: Path, grpo: Run, reference: str) -> None:
    folder = chart(checkout)
    (folder / "values.schema.json").write_text(json.dumps({"properties": {"a": {"$ref": reference}}}))
    code, said = grpo("check", "c")
    assert (code, f"the schema reads {reference}" in said) == (2, True)
    (folder / "values.schema.json").write_text(json.dumps({"properties": {"a": {"$ref": "#/definitions/b"}}}))
    assert "the schema reads" not in grpo("check", "c")[1]


def test_links_within_the_checkout_and_our_own_values_are_read(checkout: Path, grpo: Run) -> None:
    (checkout / "real.yaml").write_text("job: {maxSteps: 10}\n")
    (checkout / "my.yaml").symlink_to("real.yaml")
    assert "outside" not in grpo("lint", *STACK, "-f", "my.yaml", "--no-render")[1]


def test_links_are_followed_when_no_checkout_is_set(checkout: Path, grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPO_CHECKOUT")
    (checkout / "my.yaml").symlink_to("../environ")
    assert "outside" not in grpo("lint", *STACK, "-f", "my.yaml", "--no-render")[1]
