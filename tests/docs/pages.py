"""Read the pages of docs/: their blocks, the commands in them, and the values that a helm command gives to a chart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from grpo.cli.main import grpo
from grpo.start import site_file
from grpo.start.interview import Interview
from tests.conftest import LAYERS, ROOT, SITE

# The README has tests of its own.
PAGES = tuple(sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/howto").glob("*.md")]))
STACK = re.compile(r"<!-- stack: (\S+) (\S+) -->")
LIST = '"${F[@]}"'


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def stack_of(page: str) -> tuple[str, str]:
    """Return accelerator and recipe that a page is about: what its first comment says, or the tutorial's."""
    found = STACK.search(page)
    return (found[1], found[2]) if found else ("b200", "gemma3-27b-gsm8k")


def commands(page: str) -> Iterator[str]:
    """Give the commands of a page, each on one line, with the list of values files written out."""
    files = ""
    for block in blocks(page, "(?:bash|console)"):
        prompt = "$ " if block.startswith("$ ") else ""
        for line in block.replace("\\\n", " ").splitlines():
            command = line.removeprefix(prompt).strip() if line.startswith(prompt) else ""
            if found := re.fullmatch(r"F=\((.*)\)", command):
                files = found[1]
            elif command:
                yield command.replace(LIST, files or standard(page))


def outputs(page: str) -> Iterator[tuple[str, str]]:
    """Give the commands of a page whose output it shows, each on one line, with this output."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = re.sub(r"\\\n *", "", part).partition("\n")
            if output.strip():
                yield command, output


def standard(page: str) -> str:
    accelerator, recipe = stack_of(page)
    return f"-f values/accelerators/{accelerator}.yaml -f values/recipes/{recipe}.yaml -f my-site.yaml"


def written(page: str) -> dict[str, str]:
    """Return the files whose text a page shows: blocks that begin with a comment of their name."""
    found = {}
    for block in [*blocks(page, "yaml"), *blocks(page, "python")]:
        if name := re.match(r"# (\S+\.(?:yaml|py))\b", block):
            found[name[1]] = block
    return found | {name: text for text, name in re.findall(r"^\$ echo '(.*)' > (\S+)$", page, re.MULTILINE)}


def folder_of(page: str, folder: Path) -> Path:
    """Make a folder in which the page's commands find what they name."""
    for name in ("values", "charts", "jobs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "my-site.yaml").write_text(SITE.read_text(encoding="utf-8"), encoding="utf-8")
    for name, text in written(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@dataclass
class Install:
    """A helm command on one of the charts: what it gives to it."""

    release: str
    layer: str
    namespace: str
    files: list[Path]
    values: dict[str, Any] = field(default_factory=dict)


@cache
def site_of_init() -> str:
    """Return the site file that `grpo init` writes for the machine and the recipe of the README."""
    given = {"project": "acme-rl", "project-number": "482915073164", "bucket": "acme-rl-runs"}
    interview = Interview({**given, "accelerator": "b200", "recipe": "gemma3-27b-gsm8k"}, None)
    interview.run()
    return site_file.text(interview.answers, schema="s", files=["x"])


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        tree = tree.setdefault(part, {})
    tree[last] = value


def installs(page: str, folder: Path) -> Iterator[Install]:
    """Give each `helm install` and `helm upgrade` of a page, its files in a folder."""
    for command in commands(page):
        words = shlex.split(command, comments=True)
        if words[:1] != ["helm"] or words[1] not in ("install", "upgrade") or not words[3].startswith("charts/"):
            continue
        layer = words[3].removeprefix("charts/")
        assert layer in LAYERS, command
        options = list(zip(words[4:], [*words[5:], ""], strict=True))
        found = Install(words[2], layer, dict(options).get("--namespace", "default"), [])
        for option, value in options:
            if option == "-f":
                found.files.append(folder / value)
            elif option in ("--set", "--set-file"):
                path, _, text = value.partition("=")
                content = yaml.safe_load(text) if option == "--set" else (folder / text).read_text(encoding="utf-8")
                put(found.values, path, content)
        yield found


def headings(page: str) -> set[str]:
    """Return the anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def paths(command: str) -> Iterator[str]:
    """Give the words of a command that name files of the checkout."""
    for word in re.findall(r"[\w./{},-]+", command):
        if re.match(r"(values|charts|docs|examples|jobs|schemas)/", word) and "{" not in word:
            yield word


def read_options(words: list[str]) -> None:
    """Read the command line of a command of grpo, and run nothing; raise what click raises."""
    # A command that is read without its group forgets the group's -h for ever.
    with grpo.make_context("grpo", [*words]) as group:
        command = grpo.get_command(group, words[0])
        assert command
        command.make_context(words[0], [*words[1:]], parent=group)
