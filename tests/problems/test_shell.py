"""What the rules say of entrypoints is what bash does with them, in the command that the operator makes of them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from grpo.check.objects import check
from grpo.manifests.loader import read

RULES = {"ray/entrypoint-split", "ray/entrypoint-expanded"}
# What stands in submitters and not on heads: other files, other variables.
SUBMITTERS = ((), ("a", "b", "ab", "-a"))
ALPHABET = "ab ab '\"\\;&|()<>$`#*?{},~=\n"
HAZARDS = (
    "a; b",
    "a && b",
    "a & b",
    "a | b",
    "a\nb",
    "a (b)",
    "a #b",
    "a 'b",
    'a "b',
    "a $HOME",
    'a "$HOME"',
    "a `b`",
    "a *",
    "a ?",
    "a ~",
    "a {1,2}",
    "a b={1..3}",
    "a > b",
    "a < b",
)
HARMLESS = (
    "python train.py --a=b",
    "bash -c 'a; b && c | d > e; echo $HOME `b` * ~ {1,2} #'",
    'python train.py "a; b"',
    "python train.py a\\;b",
    "python train.py \\\n  --steps 10",
    "python train.py {} {a} a#b",
    "python train.py 'a=[1,2]' +b=1",
)


def found(entrypoint: str) -> set[str]:
    """Return what the rules say of an entrypoint in K8sJobMode."""
    text = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: a}\nspec:\n  entrypoint: "
    quoted = "".join(f"\\x{ord(char):02x}" for char in entrypoint)
    return {each.rule for each in check(read({"a.yaml": f'{text}"{quoted}"\n'.encode()}), None)} & RULES


def becomes(entrypoint: str, files: tuple[str, ...], folder: Path, *flags: str) -> str | None:
    """Return the words that `ray` gets from bash; None where that is not all that bash does, or it fails."""
    folder.mkdir(exist_ok=True)
    for name in files:
        (folder / name).touch()
    script = f"ray() {{ printf '<%s>' \"$@\"; }}; end() {{ echo end; }}; ray job submit -- {entrypoint.strip()} ; end"
    environment = {"PATH": str(folder), "HOME": f"/{len(files)}"}
    done = subprocess.run(
        ["/bin/bash", *flags, "-ce", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    whole = done.stdout.startswith("<job>") and done.stdout.endswith("end\n") and done.stdout.count("end") == 1
    return done.stdout if whole and not done.returncode and not done.stderr else None


def is_kept(entrypoint: str, folder: Path) -> bool:
    """Say whether bash hands the whole over, the same whatever the submitter holds, and makes no two words of one."""
    words = {becomes(entrypoint, files, folder / str(number)) for number, files in enumerate(SUBMITTERS)}
    words.add(becomes(entrypoint, (), folder / "0", "+B"))
    return len(words) == 1 and None not in words


@pytest.mark.parametrize("entrypoint", HAZARDS)
def test_a_reported_hazard_really_changes_the_command(entrypoint: str, tmp_path: Path) -> None:
    assert found(entrypoint)
    assert not is_kept(entrypoint, tmp_path)


@pytest.mark.parametrize("entrypoint", HARMLESS)
def test_commands_that_bash_leaves_unchanged_are_not_reported(entrypoint: str, tmp_path: Path) -> None:
    assert found(entrypoint) == set()
    assert is_kept(entrypoint, tmp_path)


@pytest.mark.full
def test_bash_leaves_every_unreported_command_unchanged(tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311 (the same texts each time)
    texts = ["a" + "".join(chance.choices(ALPHABET, k=chance.randint(1, 9))) for _ in range(4000)]
    silent = [text for text in dict.fromkeys(texts) if not found(text)]
    assert len(silent) > 150
    assert [text for text in silent if not is_kept(text, tmp_path)] == []
