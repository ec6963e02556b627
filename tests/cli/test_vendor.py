"""`grpo init --vendor`: a repository with all that its commands name, wherever it is cloned."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.check import trace
from grpo.cli import main as cli
from grpo.helm.engines import Engine
from postrender import __version__, paths, textfile
from tests.conftest import ROOT

Run = Callable[..., tuple[int, str, str]]
STACK = ("--accelerator", "b200", "--project", "acme-rl", "--project-number", "482915073164", "--bucket", "acme-runs")
SMOKE = ("--yes", *STACK, "--recipe", "smoke")
OWN = ("--yes", *STACK, "--model", "Qwen/Qwen2.5-7B-Instruct", "--framework-version", "v0.6.0")
NAMED = f"grpo-charts {__version__}"
SHELL = f'set -euo pipefail\ngrpo() {{ {sys.executable} -m grpo.cli "$@"; }}\n'


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in an empty folder; return exit code, stdout, stderr."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(textfile, "_streams", {})

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands that were printed, in a folder, as somebody who has `grpo` does."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["bash", "-c", SHELL + script], cwd=folder, env=variables, text=True, capture_output=True, check=False
    )


def commit(folder: Path) -> None:
    who = "-c user.name=a -c user.email=a@example.com"
    done = shell(f"git init -q . && git add -A && git {who} commit -qm Stack", folder)
    assert done.returncode == 0, done.stderr


def texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((*SMOKE, "--vendor"), id="shipped", marks=pytest.mark.full),
        pytest.param((*OWN, "--vendor", "third_party/grpo"), id="own", marks=pytest.mark.full),
    ],
)
def test_the_printed_commands_run_in_the_repository_and_in_a_clone(
    words: tuple[str, ...], grpo: Run, helm: Engine, tmp_path: Path
) -> None:
    code, out, err = grpo("init", *words)
    assert code == 0, out + err
    assert f" files of {NAMED} in " in err
    here, clone = Path.cwd(), tmp_path / "elsewhere" / "clone"
    steps = out.partition("Next:")[2]
    lines = [line for line in steps.splitlines() if line.startswith(("F=(", "grpo "))]
    assert [line.split()[:2] for line in lines[1:]] == [["grpo", "lint"], ["grpo", "guide"]]
    lines += ['grpo render all "${F[@]}" --namespace rl --output-dir deploy', 'grpo render --commands all "${F[@]}"']
    commit(here)
    assert shell(f"git clone -q {here} {clone}", tmp_path).returncode == 0
    printed = []
    for folder in (here, clone):
        done = shell("\n".join(lines), folder)
        assert done.returncode == 0, done.stderr
        assert "\nclean: " in f"\n{done.stderr}"
        assert "this machine" not in done.stdout + done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert texts(here) == texts(clone)
    everything = "\n".join([steps, *printed, *texts(here).values()])
    assert not re.findall(rf"{re.escape(str(ROOT))}|{re.escape(str(tmp_path))}", everything)
    # What helm is told to install is in the repository, and what grpo has judged.
    files = re.findall(r"-f (\S+?)(?=[ )])", lines[0])
    charts = re.findall(r"^helm install \S+ (\S+) ", steps, re.MULTILINE)
    assert [each.rpartition("/")[2] for each in charts] == list(paths.LAYERS)
    assert all(each in texts(here)["my-guide.md"] for each in charts)
    for chart in charts:
        rendered, ours = (
            helm.render(place, [str(clone / file) for file in files], values={}, release="a", namespace="rl").manifest
            for place in (str(clone / chart), paths.chart(chart.rpartition("/")[2]))
        )
        assert rendered == ours


def test_every_copied_file_finds_its_schema_and_is_otherwise_unchanged(grpo: Run) -> None:
    assert grpo("init", *OWN, "--vendor", "lib")[0] == 0
    held = texts(Path.cwd())
    named = {
        name: re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        for name, text in held.items()
        if name.startswith("lib/values/") or "/" not in name
    }
    assert set(named) == {
        "my-site.yaml",
        "qwen2-5-7b-instruct-gsm8k-recipe.yaml",
        "lib/values/accelerators/b200.yaml",
        "lib/values/frameworks/nemo-rl-v0.6.0.yaml",
    }
    for name, found in named.items():
        assert found
        assert (Path(name).parent / found[1]).resolve() == Path.cwd() / "lib/schemas/values.schema.json"
    copied = {name.removeprefix("lib/"): text for name, text in held.items() if name.startswith("lib/")}
    assert all((ROOT / name).read_text(encoding="utf-8") == text for name, text in copied.items())
    assert not any(path.is_symlink() for path in Path("lib").rglob("*"))
    assert {name for name in copied if name.startswith("charts/")} >= {
        "charts/grpo-job/charts/common/Chart.yaml",
        "charts/grpo-job/files/programs/train.tar.bz2.b64",
        "charts/raycluster/files/probe.py",
    }


def test_init_vendor_again_lists_differences_and_replaces_nothing(grpo: Run, tmp_path: Path) -> None:
    assert grpo("init", *SMOKE, "--vendor", "--output", "my-site.yaml")[0] == 0
    count = len(texts(Path.cwd())) - 1
    same = f"as in {NAMED}: {count} files in .\n"
    assert grpo("init", "--vendor") == (0, same, "")
    changed = {
        "values/accelerators/b200.yaml": "mine: 1\n",
        "charts/storage/templates/NOTES.txt": "old\n",
        "charts/grpo-job/templates/old.yaml": "kind: Old\n",
    }
    for name, text in changed.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("charts/network/values.yaml").unlink()
    before = texts(Path.cwd())
    files = ("values/recipes/smoke.yaml", "my-site.yaml")
    words = ("lint", "--accelerator", "b200", *(word for file in files for word in ("-f", file)))
    # The chart without its defaults is refused.
    assert " files, 3 charts in charts, " in grpo(*words)[2]
    code, out, _ = grpo("init", "--vendor")
    lines = out.splitlines()
    assert code == 1
    assert lines[:-1] == [
        "differs: charts/storage/templates/NOTES.txt",
        "differs: values/accelerators/b200.yaml",
        f"not in {NAMED}: charts/grpo-job/templates/old.yaml",
        f"only in {NAMED}: charts/network/values.yaml",
    ]
    assert texts(Path.cwd()) == before
    code, _, err = grpo("init", *SMOKE, "--vendor")
    assert (code, "my-site.yaml: exists, and this command never overwrites a file" in err) == (2, True)
    # A second stack of the repository is refused as well, before anything is written.
    code, _, err = grpo("init", *SMOKE, "--vendor", "--output", "other.yaml")
    assert (code, texts(Path.cwd())) == (2, before)
    assert (
        "charts/storage/templates/NOTES.txt, values/accelerators/b200.yaml, charts/grpo-job/templates/old.yaml" in err
    )
    assert "git diff has the changes" in err
    assert "and run this again" in err
    # What the fix says takes the files of this version.
    fix = re.fullmatch(
        r"fix: copy what is yours to files of your own and commit them, then (.*); git diff has the changes", lines[-1]
    )
    assert fix
    assert shell(fix[1], Path.cwd()).returncode == 0
    assert grpo("init", "--vendor") == (0, same, "")
    assert yaml.safe_load(Path("values/accelerators/b200.yaml").read_text(encoding="utf-8"))["accelerator"]


def test_the_check_writes_nothing_and_names_missing_files(grpo: Run) -> None:
    """CI runs it: a repaired copy, or copies in another folder, would pass and be thrown away."""
    assert grpo("init", *SMOKE, "--vendor", "third party", "--output", "site.yaml")[0] == 0
    whole = texts(Path.cwd())
    check = ("init", "--vendor", "third party", "--output", "site.yaml")
    Path("third party/charts/storage/Chart.yaml").unlink()
    before = texts(Path.cwd())
    code, out, _ = grpo(*check)
    write = "grpo init --vendor 'third party' --output site.yaml --yes"
    assert (code, out) == (1, f"only in {NAMED}: charts/storage/Chart.yaml\nfix: {write}\n")
    assert texts(Path.cwd()) == before
    for other in ((), ("lib",)):
        code, _, err = grpo("init", "--vendor", *other, "--output", "site.yaml")
        assert (code, texts(Path.cwd()) == before) == (2, True)
        assert f"site.yaml names the copies in third party, not those in {''.join(other) or '.'}\n" in err
        assert "fix: grpo init --vendor 'third party' --output site.yaml\n" in err
    assert shell(write, Path.cwd()).returncode == 0
    assert texts(Path.cwd()) == whole
    assert grpo(*check)[0] == 0


def test_copies_can_be_added_to_an_existing_site_file(grpo: Run) -> None:
    assert grpo("init", *SMOKE)[0] == 0
    before = texts(Path.cwd())
    code, out, _ = grpo("init", "--vendor", "lib")
    fix = "grpo init --vendor lib --output my-site.yaml --yes"
    assert (code, out) == (1, f"nothing of {NAMED} is in lib\nfix: {fix}\n")
    assert texts(Path.cwd()) == before
    assert shell(fix, Path.cwd()).returncode == 0
    assert grpo("init", "--vendor", "lib")[0] == 0


STACK_OF_COPIES = (
    *(f"-flib/values/{name}.yaml" for name in ("accelerators/b200", "recipes/smoke")),
    "-fmy-site.yaml",
)


def test_the_copied_charts_are_rendered(grpo: Run) -> None:
    """An upgrade of the copies that replaces the pods of Ray is seen before the merge, as Argo CD will render it."""
    assert grpo("init", *SMOKE, "--vendor", "lib")[0] == 0
    code, before, err = grpo("render", "all", *STACK_OF_COPIES, "-n", "rl")
    assert (code, err.endswith(", charts in lib/charts\n")) == (0, True)
    template = Path("lib/charts/raycluster/templates/raycluster.yaml")
    template.write_text(f"{template.read_text('utf-8')}  suspend: true\n", "utf-8")
    Path("main.yaml").write_text(before, encoding="utf-8")
    code, out, err = grpo("diff", *STACK_OF_COPIES, "--left", "main.yaml")
    assert (code, "    spec.suspend\n      left   (not set)\n      right  true\n" in out) == (0, True)
    assert ", charts in lib/charts, namespace rl\n" in err
    grpo("render", "all", *STACK_OF_COPIES, "--set", "job.attempt=2", "--output-dir", "deploy")
    (written,) = Path("deploy/raycluster").glob("raycluster-*.yaml")
    assert "\n  suspend: true\n" in written.read_text("utf-8")
    assert "judged: 3 files, 4 charts in lib/charts, " in grpo("lint", *STACK_OF_COPIES)[2].replace("clean:", "judged:")
    assert json.loads(grpo("lint", *STACK_OF_COPIES, "--format", "json")[1])["judged"]["chartsIn"] == "lib/charts"


def test_lint_checks_an_object_added_to_a_copied_chart(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No value moves it, so none is changed to find the one that does: that takes a minute."""
    monkeypatch.setattr(trace.Origins, "_after", None)
    assert grpo("init", *SMOKE, "--vendor", "lib")[0] == 0
    added = Path("lib/charts/storage/templates/more.yaml")
    added.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {a: 1}\n", encoding="utf-8")
    code, out, _ = grpo("lint", *STACK_OF_COPIES)
    assert (code, "ConfigMap more" in out) == (1, True)
    assert f"not in {NAMED}: charts/storage/templates/more.yaml\n" in grpo("init", "--vendor", "lib")[1]


def test_copies_that_refuse_the_values_are_named(grpo: Run) -> None:
    """They may be older than what grpo knows."""
    assert grpo("init", *SMOKE, "--vendor", "lib")[0] == 0
    Path("lib/charts/storage/templates/old.yaml").write_text('{{ fail "storage.data: is too new" }}\n', "utf-8")
    code, _, err = grpo("render", "all", *STACK_OF_COPIES)
    assert (code, "storage.data: is too new" in err) == (2, True)
    assert err.endswith("\nrendered with the charts in lib/charts: grpo init --vendor compares them\n")


def test_copies_that_are_links_are_not_rendered_in_a_checkout(
    grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helm follows a link in a chart, and a template prints what it finds."""
    assert grpo("init", *SMOKE, "--vendor", "lib")[0] == 0
    (tmp_path / "secret").write_text("Correct-Horse7", encoding="utf-8")
    Path("lib/charts/storage/files").mkdir(exist_ok=True)
    Path("lib/charts/storage/files/a").symlink_to(tmp_path / "secret")
    monkeypatch.setenv("GRPO_CHECKOUT", str(Path.cwd()))
    for command in ("lint", "render", "diff --left my-site.yaml"):
        code, out, err = grpo(*command.split(), *STACK_OF_COPIES)
        assert (code, "outside of the checkout" in out + err, "Horse" in out + err) == (2, True, False)


def test_a_second_stack_shares_the_copies(grpo: Run) -> None:
    assert grpo("init", *SMOKE, "--vendor")[0] == 0
    Path("team").mkdir()
    words = ("--yes", *STACK, "--recipe", "gemma3-27b-gsm8k", "--output", "team/site.yaml")
    code, out, err = grpo("init", *words, "--vendor", ".")
    assert code == 0
    assert f"written: 1 file of {NAMED} in .; " in err
    assert "F=(-f values/accelerators/b200.yaml -f values/recipes/gemma3-27b-gsm8k.yaml -f team/site.yaml)" in out
    text = Path("team/site.yaml").read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../schemas/values.schema.json\n")


def test_nothing_is_written_behind_a_link_or_into_the_package(grpo: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Path("charts").symlink_to(other)
    code, _, err = grpo("init", *SMOKE, "--vendor")
    assert (code, [*other.iterdir()], Path("my-site.yaml").exists()) == (2, [], False)
    assert "is behind a symbolic link, so nothing is written there" in err
    code, _, err = grpo("init", *SMOKE, "--vendor", str(ROOT))
    assert code == 2
    assert "is the folder of grpo-charts itself" in err
    Path("charts").unlink()
    Path("values/accelerators").mkdir(parents=True)
    Path("values/accelerators/b200.yaml").symlink_to(other / "b200.yaml")
    code, _, err = grpo("init", *SMOKE, "--vendor")
    assert (code, "b200.yaml: is no ordinary file" in err, [*other.iterdir()]) == (2, True, [])
