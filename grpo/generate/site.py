"""Assemble the pages of the documentation site: `python -m grpo.generate.site FOLDER`.

The folder mirrors the repository, so that links between pages work in both. The module generates a page for each
rule from the rule and its cases, the tables of all rules, and a page for each section of the values. `make docs`
builds the site from the folder.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from grpo.generate import reference, sources
from grpo.generate.markdown import prose
from grpo.generate.sources import ROOT
from grpo.lint.linter import described_run
from grpo.plan import host, planner
from grpo.plan.generation import GENERATION
from grpo.problems import cases, index, reading, registry
from grpo.problems.cases import Case
from postrender.problem import CLUSTER, FAILURE, Problem
from postrender.values import merge

# Pages in the repository and pictures on them, by pattern, and folders with files that they link to.
PAGES = ("docs/**/*.md", "charts/*/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PICTURES = ("docs/**/*.png", "docs/**/*.svg")
LINKED = ("examples", "schemas", "values")
_MENU: dict[str, tuple[str, ...]] = {
    "Start": ("docs/README", "docs/tutorial", "docs/recipes", "docs/options", "docs/glossary"),
    # The order of docs/README.md.
    "How to": (),
    "Reference": ("docs/values", "docs/rules"),
    "Project": ("CONTRIBUTING", "SECURITY", "CHANGELOG"),
}
_HOW_TO = re.compile(r"^\| \[[^\]\n]+\]\((howto/[\w-]+|gitops)\.md\)", re.MULTILINE)
# The machines of the table of verdicts.
_MACHINES = ("b200", "h200")
_VERDICTS = (
    "What `grpo plan` computes for each recipe as it is: the verdict, and how much of a GPU's memory the worst case of"
    " the training takes. Computed, not measured; [Does it fit?](howto/plan.md) says how."
)
_READING = (
    "These checks are part of reading the values and samples of data, and of wiring a stream. Each finding names its"
    " reason and its fix, and none can be ignored. `grpo explain ID` explains one."
)
_FAILURES = "`grpo why` finds these in the logs of a run, in the objects of the cluster and in their events."
_CLUSTER = "`grpo doctor` finds these before an install."
# The first line of a case names the files below it.
_LINT = re.compile(r"# lint: (\S+)(?: (\S+))?(?: (\S+))?$")
_WIRING = re.compile(r"# values: (\S+)(?: (\{.*\}))?$")


def pages(root: Path) -> dict[str, str]:
    """Return the text of each page of the site by its path; index.md is the README."""
    written = {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for pattern in PAGES
        for path in sorted(root.glob(pattern))
    }
    values = reference.pages(sources.load(root))
    written["docs/values.md"] += "\n" + _menu("", (path.removeprefix("docs/").removesuffix(".md") for path in values))
    written["docs/rules.md"] += "\n" + rule_tables()
    written["docs/recipes.md"] += "\n" + verdicts(root)
    menu = {**_MENU, "How to": tuple(f"docs/{page}" for page in _HOW_TO.findall(written["docs/README.md"]))}
    charts = tuple(path.removesuffix(".md") for path in written if path.startswith("charts/"))
    menus = "\n".join(_menu(caption, entries) for caption, entries in [*menu.items(), ("Charts", charts)] if entries)
    readme = (root / "README.md").read_text("utf-8")
    return {"index.md": f"{readme}\n{menus}", **written, **values, **rule_pages()}


def _menu(caption: str, entries: Iterable[str]) -> str:
    """Return a table of contents; with a caption it appears only in the sidebar, otherwise on the page."""
    options = [f":caption: {caption}", ":hidden:"] if caption else [":titlesonly:"]
    return "\n".join(["```{toctree}", ":glob:", *options, "", *entries, "```"]) + "\n"


def rule_pages() -> dict[str, str]:
    """Return the text of each problem's page by its path; a problem without cases has no examples."""
    return {f"docs/rules/{each.id}.md": _rule_page(each) for each in index.everything()}


def rule_tables() -> str:
    """Return a table of problems for each domain, with links relative to docs/."""
    rules = index.rules()
    lines = [f"## All rules\n\nThere are {len(rules)}. The id of a rule begins with its domain.\n"]
    for domain in dict.fromkeys(rule.domain for rule in rules):
        lines += [f"### {domain}\n", *_table([rule for rule in rules if rule.domain == domain])]
    lines += [f"### Checks that are no rules\n\n{_READING}\n", *_table(reading.READING)]
    lines += [f"### A failed run\n\n{_FAILURES}\n", *_table(registry.rules(FAILURE))]
    lines += [f"### The cluster\n\n{_CLUSTER}\n", *_table(registry.rules(CLUSTER))]
    return "\n".join(lines) + "\n"


def _table(problems: Iterable[Problem]) -> Iterator[str]:
    yield "| id | severity | found when | for |\n|---|---|---|---|"
    for each in problems:
        yield f"| [{each.id}](rules/{each.id}.md) | {each.severity} | {prose(each.title)} | {each.versions} |"
    yield ""


def verdicts(root: Path) -> str:
    """Return a table of `grpo plan`'s verdicts for every recipe on the most common machines."""
    lines = [
        f"## Do they fit?\n\n{_VERDICTS}\n",
        f"| recipe | {' | '.join(_MACHINES)} |",
        f"|---|{'---|' * len(_MACHINES)}",
    ]
    for path in sorted((root / "values/recipes").glob("*.yaml")):
        cells = [_verdict(root / f"values/accelerators/{machine}.yaml", path) for machine in _MACHINES]
        lines.append(f"| {path.stem} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _verdict(profile: Path, recipe: Path) -> str:
    """Return the verdict, and the share of a GPU's memory that the fullest training phase takes."""
    run = described_run(merge.load([str(profile), str(recipe)]))
    if run is None:
        return "no run"
    found = planner.plan(run)
    if found.setup is None:
        return f"{found.verdict}: {found.reason}"
    phases = [each.phase for each in found.phases if each.phase.name != GENERATION]
    share = max(phase.peak.share(phase.usable) for phase in phases)
    return f"{found.verdict}, {share:.0%} of a GPU; node memory {host.verdict(found.setup)}"


def _rule_page(rule: Problem) -> str:
    about = f", for {rule.versions}" if rule.versions else ""
    up = "../" * (rule.id.count("/") + 1)
    lines = [
        # The tables link to the page; a menu with all rules would be too long.
        f"---\norphan: true\n---\n\n# {rule.id}\n\n{prose(rule.title)}\n",
        f"- Severity: {rule.severity}",
        f"- Command: `{rule.command}`{about}",
        *(f"- {name}: {prose(text)}" for name, text in _texts(rule).items() if text),
        *(line for name in ("bad", "good") for line in _example(cases.case(rule.id, name))),
        f"\n[All rules]({up}rules.md)",
    ]
    return "\n".join(lines) + "\n"


def _texts(rule: Problem) -> dict[str, str]:
    texts = {"Why": rule.why, "Fix": rule.fix, "Source": rule.source}
    texts["Found before by"] = ", ".join(rule.earlier)
    texts["Lines of a log with"] = "; ".join(sign.key for sign in rule.logs)
    return texts


def _example(case: Case | None) -> Iterator[str]:
    if case is None:
        return
    first, _, rest = case.text.partition("\n")
    yield f"\n## {case.name.capitalize()}\n"
    if files := _files_below(first):
        yield f"{files}\n"
    text = rest if files else f"{first}\n{rest}"
    yield f"```yaml\n{text.strip()}\n```"


def _files_below(first: str) -> str:
    """Describe the files that a case's first line names; return an empty text if it names none."""
    if found := _LINT.match(first):
        profile, recipe, framework = found.groups()
        files = [f"accelerators/{profile}.yaml", *([f"recipes/{recipe}.yaml"] if recipe else [])]
        files += [f"frameworks/{framework}.yaml"] if framework else []
        return f"As the last file, after {', '.join(f'`values/{each}`' for each in (*files, 'examples/site.yaml'))}:"
    if found := _WIRING.match(first):
        more = f" and `{found[2]}`" if found[2] else ""
        return f"With the values `values/accelerators/{found[1]}.yaml`{more}:"
    return ""


def write(root: Path, folder: Path) -> None:
    """Write the pages into a folder, deleting its old content first."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in pages(root).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for picture in (each for pattern in PICTURES for each in root.glob(pattern)):
        copy = folder / picture.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, copy)
    for name in LINKED:
        shutil.copytree(root / name, folder / name)


def main() -> int:
    """Write the pages into the folder given on the command line."""
    if len(sys.argv) != 2:
        print("usage: python -m grpo.generate.site FOLDER", file=sys.stderr)
        return 2
    write(ROOT, Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
