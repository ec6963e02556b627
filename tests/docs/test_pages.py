"""The pages of docs/: what they tell to write renders, what they tell to run runs, and what they name is there."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.generate import tutorial
from grpo.helm.engines import Engine
from grpo.lint import linter
from grpo.manifests.needs.prerequisites import Prerequisites
from grpo.start import guide, questions
from postrender.errors import InputError, RenderError
from postrender.values import merge
from postrender.wiring import platform
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from tests.conftest import LAYERS, ROOT, stack_files, thin
from tests.corpus import proof
from tests.docs import pages

TASKS = ("train", "fetch", "prepare-data", "convert", "evaluate", "clean")
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages.PAGES}
HOWTO = [name for name in TEXTS if "howto/" in name]
# options.md has a test of its own, which renders its blocks in the same way.
RENDERED = [name for name in TEXTS if pages.blocks(TEXTS[name], "yaml") and not name.endswith("options.md")]


def blocks() -> Iterator[Any]:
    """Give each block of values with the stack and the page's first block; a comment above may name another stack."""
    count = 0
    for name in RENDERED:
        first = next(each for each in pages.blocks(TEXTS[name], "yaml") if "apiVersion:" not in each)
        parts = re.split(r"^(```yaml\n.*?^```)", TEXTS[name], flags=re.DOTALL | re.MULTILINE)
        for number in range(1, len(parts), 2):
            block = parts[number].removeprefix("```yaml\n").removesuffix("```")
            above = pages.STACK.search(parts[number - 1][-80:])
            stack = (above[1], above[2]) if above else pages.stack_of(TEXTS[name])
            if "apiVersion:" not in block:
                count += 1
                marks = [pytest.mark.full] if count % 60 else []
                yield pytest.param(stack, first, block, id=f"{Path(name).stem}-{number}", marks=marks)


def everything(helm: Engine, files: list[Path]) -> dict[str, object]:
    """Return what each layer and each task renders to, or why it is refused."""
    found: dict[str, object] = {}
    for layer, task in [*((layer, "train") for layer in LAYERS), *(("grpo-job", task) for task in TASKS[1:])]:
        chart = str(ROOT / "charts" / layer)
        try:
            one = helm.render(chart, files, values={"job": {"task": task}}, release=layer, namespace="rl", notes=True)
            found[f"{layer} {task}"] = (one.manifest, one.notes)
        except RenderError as error:
            found[f"{layer} {task}"] = error
    return found


def refused(found: dict[str, object]) -> dict[str, str]:
    return {name: str(one) for name, one in found.items() if isinstance(one, RenderError)}


@pytest.mark.parametrize(("stack", "first", "block"), list(blocks()))
def test_each_values_block_works_as_the_last_file_of_a_stack(
    stack: tuple[str, str], first: str, block: str, helm: Engine, tmp_path: Path
) -> None:
    """As the last file of a stack, in all charts and tasks; it changes something, and nothing is refused for it."""
    files = {name: tmp_path / name for name in ("first.yaml", "last.yaml")}
    for file, text in zip(files.values(), (first, block), strict=True):
        file.write_text(text, encoding="utf-8")
    before = stack_files(*stack)
    one = everything(helm, before)
    if block != first and len(refused(one)) == len(one):
        # The site file is for GKE: on pages for other clouds the first block changes that.
        before = [*before, files["first.yaml"]]
        one = everything(helm, before)
    after = [*before, files["last.yaml"]]
    assert [finding.what for finding in linter.lint([str(path) for path in after])] == []
    other = everything(helm, after)
    assert set(refused(other)) <= set(refused(one)), refused(other)
    assert {name: str(each) for name, each in one.items()} != {name: str(each) for name, each in other.items()}


@pytest.mark.parametrize(("stack", "first", "block"), [pytest.param(*each.values, id=each.id) for each in blocks()])
def test_a_block_works_on_top_of_a_site_file_from_init(
    stack: tuple[str, str], first: str, block: str, tmp_path: Path
) -> None:
    """That file states the kind of cluster and the GPU network, which another machine refuses.

    One page begins with the block that changes both, for all its other blocks.
    """
    moves = [first] if first.startswith("# my-cluster.yaml\nplatform:") else []
    files = [str(path) for path in stack_files(*stack)[:-1]]
    for number, text in enumerate([pages.site_of_init(), *moves, block]):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
        files.append(str(tmp_path / f"{number}.yaml"))
    given = merge.load(files)
    platform.check(merge.over_defaults(given), given)


def test_the_migration_block_works_for_every_machine_or_a_refusal_says_what_to_do(tmp_path: Path) -> None:
    page = TEXTS["docs/howto/clouds.md"]
    profile, *files = [str(path) for path in stack_files()[:-1]]
    for name, text in (
        ("site.yaml", pages.site_of_init()),
        ("my-cluster.yaml", pages.written(page)["my-cluster.yaml"]),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        files.append(str(tmp_path / name))
    refusals = set()
    for name in questions.machines():
        given = merge.load([profile.replace("b200", name), *files])
        sections = merge.over_defaults(given)
        if "kubernetes" in sections["accelerator"].get("refuses", {}):
            continue
        try:
            platform.check(sections, given)
        except InputError as error:
            refusals.add(error.fix)
    assert refusals == {"set network.mode to dranet"}


def test_the_block_pattern_finds_blocks_on_every_page() -> None:
    assert len(list(blocks())) >= 20
    assert {name for name in HOWTO if name not in RENDERED} == set()


@pytest.mark.parametrize("name", thin([*TEXTS], 3))
def test_each_helm_command_renders(name: str, helm: Engine, tmp_path: Path) -> None:
    """With its files and options; the RayJobs that the page names are rendered, or belong to the stack of the page."""
    folder = pages.folder_of(TEXTS[name], tmp_path)
    made = set()
    training = pages.Install("run", "grpo-job", "rl", stack_files(*pages.stack_of(TEXTS[name])))
    for one in list(pages.installs(TEXTS[name], folder)) or [training]:
        chart = str(ROOT / "charts" / one.layer)
        rendered = helm.render(chart, one.files, values=one.values, release=one.release, namespace=one.namespace)
        assert rendered.manifest or one.layer == "network"
        made |= {each["metadata"]["name"] for each in rendered.documents if each["kind"] == "RayJob"}
    commands = "\n".join(command for command in pages.commands(TEXTS[name]))
    named = set(re.findall(r"rayjob[/ ]([a-z0-9][\w-]*-[0-9]+)\b", commands))
    assert named <= made, named - made


@pytest.mark.parametrize("name", TEXTS)
def test_each_shell_block_parses_and_names_existing_files(name: str) -> None:
    """Bash reads it, and the files of the checkout that it names exist."""
    for block in pages.blocks(TEXTS[name], "bash"):
        done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), block
    for command in pages.commands(TEXTS[name]):
        for path in pages.paths(command):
            assert (ROOT / path).exists(), f"{path} in: {command}"


def offline(command: str) -> list[str] | None:
    """Return the words of a command of grpo as they can be run here; what asks a cluster only shows how."""
    words = shlex.split(re.split(r" [>|] ", command)[0], comments=True)
    if words[:1] != ["grpo"] or " <(" in command:
        return None
    words = words[1:]
    if words[0] in ("status", "doctor", "why") and "-f" in words:
        # tests/e2e has a cluster for them.
        return None
    if words[0] in ("checkpoints", "samples", "logs", "submit") and "-f" in words:
        return [words[0], "--show-commands", *words[1:]]
    return words


OF_A_RUN = ("logs", "report", "status", "watch", "why")


def is_of_a_cluster(words: list[str]) -> bool:
    """Say whether a command needs a cluster and cannot only show how it asks: its options are read, and that is all."""
    named = {"-n", "--namespace"} & {*words} and "--show-commands" not in words
    return words[0] == "upload" or (words[0] in OF_A_RUN and bool(named or words[1].startswith("http")))


@pytest.mark.parametrize(
    "name", thin([name for name in TEXTS if "\ngrpo " in TEXTS[name] or "$ grpo " in TEXTS[name]], 12)
)
def test_commands_that_need_no_cluster_succeed(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages.folder_of(TEXTS[name], folder)
    ran = 0
    for command in pages.commands(TEXTS[name]):
        if "git worktree add ../main " in command:
            # tests/docs/test_review.py has a repository.
            main = folder.parent / "main"
            main.unlink(missing_ok=True)
            main.symlink_to(folder)
        elif (words := offline(command)) and is_of_a_cluster(words):
            pages.read_options(words)
        elif words:
            assert cli.main(words) == 0, (command, capsys.readouterr())
            ran += 1
    assert ran


@pytest.mark.parametrize(
    ("name", "command", "output"), [(name, *each) for name in TEXTS for each in pages.outputs(TEXTS[name])]
)
def test_each_shown_output_is_what_the_command_prints(
    name: str, command: str, output: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it begins with an ellipsis: what it prints at the end."""
    pages.folder_of(TEXTS[name], folder)
    cli.main(shlex.split(command)[1:])
    printed, end = capsys.readouterr().out, output.removeprefix("…\n")
    assert (printed[-len(end) :] if end != output else printed) == end


def test_the_output_pattern_finds_the_shown_outputs() -> None:
    assert [*pages.outputs(TEXTS["docs/howto/plan.md"])]


def test_the_manifest_of_a_third_party_cluster_can_be_wired(folder: Path) -> None:
    """The page recommends grpo-post-render for its manifest."""
    pages.folder_of(TEXTS["docs/howto/own-cluster.md"], folder)
    (check,) = [one for one in pages.commands(TEXTS["docs/howto/own-cluster.md"]) if one.startswith("grpo check ")]
    name, *options = check.split()[2:]
    sections = merge.over_defaults(merge.load([word for word in options if word != "-f"]))
    outcome, _ = proof.run(Path(name).read_bytes(), Wiring(sections), Options(), gate=True)
    assert (outcome.error, outcome.refusals) == (None, [])
    assert b"check-node" in outcome.output


def test_the_checkpoint_list_looks_as_shown_in_the_tutorial(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["checkpoints", "runs/gemma3-gsm8k"]) == 0
    shown = capsys.readouterr().out.splitlines()[0]
    (text,) = pages.blocks(TEXTS["docs/tutorial.md"], "text")
    assert text.rstrip("\n") == shown.replace(shown.split()[-1], "val:accuracy")


@pytest.mark.parametrize("name", [*TEXTS, "README.md", "CONTRIBUTING.md"])
def test_each_link_has_an_existing_target(name: str) -> None:
    """To a file, and to a heading of it where it names one."""
    page = ROOT / name
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in pages.headings(file.read_text(encoding="utf-8")), f"{target}#{anchor}"


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"(?<!!)\[[^\]]+\]\(([^)#:]+)\)", TEXTS["docs/README.md"]))
    assert listed == {name.removeprefix("docs/") for name in TEXTS} - {"README.md"}


@pytest.mark.parametrize("name", TEXTS)
def test_each_page_follows_the_style_rules(name: str) -> None:
    """How-tos are short; no dash stands for a missing verb; prose fits a screen."""
    assert "\u2014" not in TEXTS[name]
    if name in HOWTO:
        assert len(TEXTS[name].splitlines()) <= 120


def test_the_second_stacks_role_is_the_one_its_tutorial_binds(tmp_path: Path) -> None:
    """The page shows the command, because who reuses a bucket does not read the step that makes it."""
    text = TEXTS["docs/howto/h200.md"]
    folder = pages.folder_of(text, tmp_path)
    names = ["values/accelerators/h200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", tutorial.EXAMPLE]
    files = [*(str(ROOT / name) for name in names), str(folder / "my-h200.yaml")]
    printed = guide.of_files(files, "rl", prerequisites=Prerequisites)
    bound, shown = (
        [" ".join(line.split()) for line in pages.commands(page) if "add-iam-policy-binding" in line]
        for page in (printed, text)
    )
    assert shown == bound
