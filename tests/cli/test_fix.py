"""`grpo lint --fix` writes what findings propose into the user's own file, after it was shown and agreed to."""

from __future__ import annotations

import io
import os
import pty
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.lint import fix
from grpo.report import text as report_text
from postrender import paths
from postrender.errors import Location, OutputError
from postrender.finding import Finding, NewName
from postrender.values import merge
from tests.conftest import ROOT, SITE, stack_files, thin
from tests.postrender.test_secrets import EXAMPLES

Run = Callable[..., tuple[int, str, str]]
PROFILE, RECIPE, _ = map(str, stack_files())
STACK = ["-f", PROFILE, "-f", RECIPE]
MINE = """\
# Ours.
job:
  config:
    checkpointing:
      metric_name: val_reward   # as it was called
      # twice a day
      save_period: 10
"""
MENDED = MINE.replace("val_reward", '"val:accuracy"')
DIFF = """\
--- my.yaml
+++ my.yaml
@@ -2,6 +2,6 @@
 job:
   config:
     checkpointing:
-      metric_name: val_reward   # as it was called
+      metric_name: "val:accuracy"   # as it was called
       # twice a day
       save_period: 10
"""

MEMORY = "the memory of a real GPU (computed: fits; see grpo plan)"
CLEAN = f"clean: 4 files; not judged: what the charts render (--no-render), {MEMORY}\n"


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `grpo lint` in a folder with a site file and a file with a mistake; return exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    report_text._source_lines.cache_clear()
    shutil.copy(SITE, "site.yaml")
    Path("my.yaml").write_text(MINE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["lint", *words, "--no-render"])
        return code, *capsys.readouterr()

    return run


def test_a_fix_is_shown_written_and_linted_again(grpo: Run) -> None:
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml"]
    assert grpo(*words)[0] == 1
    os.chmod("my.yaml", 0o640)
    assert grpo(*words, "--fix", "--yes") == (0, "", f"{DIFF}fixed: my.yaml\n{CLEAN}")
    assert Path("my.yaml").read_text() == MENDED
    assert stat.S_IMODE(os.stat("my.yaml").st_mode) == 0o640
    assert sorted(os.listdir()) == ["my.yaml", "site.yaml"]
    assert grpo(*words, "--fix") == (0, "", CLEAN)


def test_findings_without_a_value_fix_are_left_and_reported(grpo: Run) -> None:
    Path("my.yaml").write_text(MINE + "zork: 1\n")
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix"]
    code, out, err = grpo(*words, "--yes")
    assert code == 1
    assert out.startswith("my.yaml:8:1: there is no section called zork")
    assert out.endswith("\n1 error\n")
    assert "fixed: my.yaml\n" in err
    code, out, err = grpo(*words, "--yes")
    assert (code, err.splitlines()[0]) == (1, "nothing is fixed: no finding proposes a value that can be written")
    assert "zork" in out


def test_only_selected_rules_are_fixed(grpo: Run) -> None:
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes"]
    assert grpo(*words, "--select", "nodes")[0] == 0
    assert Path("my.yaml").read_text() == MINE
    assert grpo(*words, "--select", "nemo-rl/metric-prefix")[0] == 0
    assert Path("my.yaml").read_text() == MENDED


def test_without_a_terminal_nothing_is_written_unless_yes_is_given(grpo: Run) -> None:
    code, out, err = grpo(*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix")
    assert (code, out) == (2, "")
    refusal = "grpo lint: nothing was written, because there is no terminal to ask on\n  fix: add --yes to write it\n"
    assert err == DIFF + refusal
    assert Path("my.yaml").read_text() == MINE


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    thin([("\n", 1, MINE), ("y\n", 0, MENDED), ("yes\n", 0, MENDED), ("n\n", 1, MINE), ("\x04", 1, MINE)], 5),
)
def test_a_user_at_a_terminal_is_asked_to_confirm(grpo: Run, answer: str, code: int, text: str) -> None:
    above, below = pty.openpty()
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix"]
    try:
        os.write(above, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "grpo.cli", "lint", *words, "--no-render"],
            check=False,
            stdin=below,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=120,
        )
    finally:
        os.close(above)
        os.close(below)
    assert done.stderr.startswith(f"{DIFF}write my.yaml? [y/N] ")
    assert done.returncode == code
    assert Path("my.yaml").read_text() == text
    # Whoever says no still learns what is wrong.
    assert ("checkpointing.metric_name" in done.stdout) == (code == 1)


def test_packaged_files_are_kept_and_the_users_last_file_gets_the_value(grpo: Run) -> None:
    """The recipe sets val_batch_size, and the own file a number that does not go with it."""
    Path("my.yaml").write_text("job:\n  config:\n    grpo:\n      max_val_samples: 100\n")
    recipe = Path(RECIPE).read_bytes()
    code, out, err = grpo(*STACK, "-f", "my.yaml", "-f", "site.yaml", "--fix", "--yes")
    assert (code, out) == (0, ""), err
    assert Path(RECIPE).read_bytes() == recipe
    assert Path("my.yaml").read_text() == "job:\n  config:\n    grpo:\n      max_val_samples: 100\n"
    added = SITE.read_text() + "job:\n  config:\n    grpo:\n      val_batch_size: 100\n"
    assert Path("site.yaml").read_text() == added


def finding(path: tuple[str, ...], value: object, rule: str = "nemo-rl/x", file: str = "my.yaml") -> Finding:
    return Finding("what", Location(file, 1, 1), rule=rule, why="why", fix="fix", edits={path: value})


def test_a_value_set_by_a_later_packaged_file_needs_a_user_file_after_it(
    grpo: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    one = finding(("job", "config", "grpo", "val_batch_size"), 100)
    assert not fix.apply([one], merge.load([PROFILE, "my.yaml", RECIPE]), command="grpo lint", yes=True)
    name = "job.config.grpo.val_batch_size (nemo-rl/x)"
    assert f"not fixed: {name}: {RECIPE} sets it, and comes after my.yaml: give your own file last\n" in (
        capsys.readouterr().err
    )
    assert not fix.apply([one], merge.load([PROFILE, RECIPE]), command="grpo lint", yes=True)
    assert f"not fixed: {name}: all values files are packaged ones" in capsys.readouterr().err


def test_the_first_of_two_proposals_is_used(grpo: Run, capsys: pytest.CaptureFixture[str]) -> None:
    path = ("job", "config", "checkpointing", "save_period")
    found = [finding(path, 20, "a/first"), finding(path, 30, "b/second"), finding(path, 20, "c/same")]
    assert fix.apply(found, merge.load([PROFILE, RECIPE, "my.yaml"]), command="grpo lint", yes=True)
    assert Path("my.yaml").read_text() == MINE.replace("save_period: 10", "save_period: 20")
    said = "job.config.checkpointing.save_period: a/first proposes 20, which is used, and b/second 30\n"
    assert capsys.readouterr().err.startswith(said)


def test_an_unwritable_file_is_reported_and_the_rest_is_fixed(grpo: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        finding(("job", "config", "checkpointing", "metric_name", "x"), 1),
        finding(("job", "config", "a"), 1.5),
        finding(("job", "config", "checkpointing", "save_period"), 20),
    ]
    assert fix.apply(found, merge.load([PROFILE, RECIPE, "my.yaml"]), command="grpo lint", yes=True)
    err = capsys.readouterr().err
    assert "not fixed: job.config.checkpointing.metric_name.x (nemo-rl/x): x cannot be set" in err
    assert "not fixed: job.config.a (nemo-rl/x): 1.5 cannot be written unambiguously" in err
    assert Path("my.yaml").read_text() == MINE.replace("save_period: 10", "save_period: 20")


def test_a_read_only_file_is_not_changed(grpo: Run) -> None:
    os.chmod("my.yaml", 0o444)
    code, out, err = grpo(*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes")
    assert (code, out) == (3, "")
    assert err == "my.yaml: no permission to write it, nothing was changed\n  fix: chmod u+w my.yaml\n"
    assert Path("my.yaml").read_text() == MINE
    assert sorted(os.listdir()) == ["my.yaml", "site.yaml"]


def test_all_files_are_checked_before_any_is_written(grpo: Run) -> None:
    os.chmod("site.yaml", 0o444)
    site = Path("site.yaml").read_bytes()
    found = [finding(("job", "config", "checkpointing", "save_period"), 20), finding(("stack", "name"), "other")]
    with pytest.raises(OutputError, match=r"site\.yaml: no permission"):
        fix.apply(found, merge.load([PROFILE, RECIPE, "my.yaml", "site.yaml"]), command="grpo lint", yes=True)
    assert (Path("my.yaml").read_text(), Path("site.yaml").read_bytes()) == (MINE, site)


def test_a_link_stays_a_link(grpo: Run) -> None:
    Path("real").mkdir()
    shutil.move("my.yaml", "real/my.yaml")
    Path("my.yaml").symlink_to("real/my.yaml")
    assert grpo(*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes")[0] == 0
    assert Path("my.yaml").is_symlink()
    assert Path("real/my.yaml").read_text() == MENDED
    assert os.listdir("real") == ["my.yaml"]


@pytest.mark.full
def test_a_pipe_is_not_written_to(grpo: Run) -> None:
    words = " ".join([*STACK, "-f", "site.yaml"])
    line = f"{sys.executable} -m grpo.cli lint {words} -f <(cat my.yaml) --fix --yes"
    done = subprocess.run(
        ["bash", "-c", line],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    # It sets the value, and comes last: no file can win over it.
    assert done.returncode == 1
    assert "comes after site.yaml: give your own file last" in done.stderr
    assert Path("site.yaml").read_bytes() == SITE.read_bytes()


def test_a_secret_beside_a_change_is_not_shown(grpo: Run) -> None:
    secret = EXAMPLES["huggingface"]
    Path("my.yaml").write_text(MINE.replace("# twice a day", f"# {secret}"))
    code, out, err = grpo(*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes")
    assert (code, "fixed: my.yaml" in err) == (1, True)
    assert secret in Path("my.yaml").read_text()
    assert secret not in out + err


def test_a_file_changed_in_the_meantime_is_not_overwritten(grpo: Run) -> None:
    with pytest.raises(OutputError, match="was changed meanwhile"):
        fix._write("my.yaml", b"what was read", b"what would be written")
    assert Path("my.yaml").read_text() == MINE
    assert sorted(os.listdir()) == ["my.yaml", "site.yaml"]


def test_shipped_profiles_and_recipes_are_packaged_and_copies_are_not(tmp_path: Path) -> None:
    assert paths.is_packaged(PROFILE)
    assert paths.is_packaged(os.path.relpath(RECIPE))
    (tmp_path / "link.yaml").symlink_to(RECIPE)
    assert paths.is_packaged(str(tmp_path / "link.yaml"))
    assert not paths.is_packaged(str(tmp_path / "b200.yaml"))


MISSPELT = """\
# Ours.
job:
  nmae: my-run   # the run
  # A comment that stays.
  task: tarin
  confg:
    grpo: {num_prompts_per_step: 16}
"""


def test_a_misspelt_key_is_renamed_and_its_content_linted_afterwards(grpo: Run) -> None:
    Path("my.yaml").write_text(MISSPELT)
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes"]
    _, _, err = grpo(*words)
    mended = MISSPELT.replace("nmae", "name").replace("confg", "config").replace("tarin", '"train"')
    assert Path("my.yaml").read_text() == mended, err
    Path("my.yaml").write_text(mended.replace("grpo: {num_prompts_per_step", "grop: {num_prompts_per_stpe"))
    _, _, err = grpo(*words)
    assert "grop: {num_prompts_per_stpe" in err
    _, _, err = grpo(*words)
    assert Path("my.yaml").read_text() == mended, err


def test_a_misspelt_key_is_left_if_the_right_name_is_set_too(grpo: Run) -> None:
    text = "job:\n  nmae: my-run\n  name: ours\nray: {workers: {replicsa: 2}}\n"
    Path("my.yaml").write_text(text)
    code, _, err = grpo(*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes")
    assert code == 1
    assert "not fixed: job.nmae (values/unknown-key): name is set there too\n" in err
    assert Path("my.yaml").read_text() == text.replace("replicsa", "replicas")


@pytest.mark.parametrize("given", ["--set", "--set-string"])
def test_a_value_given_by_an_argument_is_left_and_reported(grpo: Run, given: str) -> None:
    words = [*STACK, "-f", "site.yaml", "-f", "my.yaml", "--fix", "--yes"]
    value = "job.config.checkpointing.metric_name=val_reward"
    code, _, err = grpo(*words, given, value, "--set", "job.nodess=2")
    assert code == 1
    lines = [
        "not fixed: job.config.checkpointing.metric_name (nemo-rl/metric-prefix): "
        f"{given} gives it, and no file: change it there",
        "not fixed: job.nodess (values/unknown-key): --set gives it, and no file: change it there",
    ]
    assert sorted(line for line in err.splitlines() if line.startswith("not fixed")) == lines
    assert Path("my.yaml").read_text() == MINE


def test_keys_in_a_packaged_file_are_not_renamed(grpo: Run) -> None:
    found = finding(("job", "version"), NewName("verison"))
    fix.apply([found], merge.load([PROFILE, RECIPE, "my.yaml"]), command="grpo lint", yes=True)
    assert "version:" in Path(RECIPE).read_text()
