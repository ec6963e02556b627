"""Ask the real frameworks about every mutation, and write down what they say. Run by hand, where source trees are.

python -m tests.recall.measure nemo-rl v0.7.0 TREE --judge nrl_setup_probe.py --facts nemo_rl_rules.json
python -m tests.recall.measure verl 0.9.1 TREE --judge verl_load.py
python -m tests.recall.measure --floor
python -m tests.recall.measure --table

The first two render each mutation, let the judge decide, and write tests/recall/verdicts/. TREE is an unpacked tag.
--site FOLDER appends a folder of packages (PyTorch, with which NeMo RL's own code shards the batches). --floor writes
what lint misses and where it is wrong into tests/recall/floor.yaml; the reasons that stand there are kept.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo.helm.engines import Embedded, Engine
from postrender.errors import RenderError
from tests.conftest import ROOT
from tests.recall import floor, generated, reasons, verdicts
from tests.recall.mutations import VERSIONS, Mutation, mutations
from tests.recall.shipped import PATTERN, VARIABLES
from tests.recall.stacks import files_of
from tests.recipes.rendered import render_plan

WORKERS = 2
PROGRAM = Path(__file__).with_name("judging.py")
IMAGE = "/opt/nemo-rl/"
Asked = dict[str, dict[str, Any]]


def render(
    framework: str, version: str, tree: Path, changes: Sequence[Mutation], folder: Path
) -> tuple[Asked, list[str]]:
    """Write the configuration of each mutation as the launcher would; return them, and those that the chart refuses."""
    asked: Asked = {}
    refused = []
    with Embedded() as engine:
        for number, change in enumerate(changes):
            try:
                plan = _plan(engine, framework, version, change)
            except RenderError:
                refused.append(change.id)
                continue
            asked[change.id] = _question(plan, tree, folder / f"{number}.yaml", change)
    return asked, refused


def _plan(engine: Engine, framework: str, version: str, change: Mutation) -> dict[str, Any]:
    return render_plan(engine, files_of(framework, version, change.base), change.overlay)


def _question(plan: Mapping[str, Any], tree: Path, file: Path, change: Mutation) -> dict[str, Any]:
    # The launcher is no package: its modules import each other by plain names.
    sys.path += [str(ROOT / "jobs/common"), str(ROOT / "jobs/launcher")]
    from configuration import to_yaml

    config = dict(plan["config"])
    if isinstance(config["defaults"], str):
        config["defaults"] = config["defaults"].replace(IMAGE, f"{tree}/")
    file.write_text(to_yaml(config), "utf-8")
    return {"file": str(file), "environment": plan["environment"], "arguments": list(change.arguments)}


def ask(asked: Asked, judge: Path, tree: Path, site: Path | None) -> dict[str, dict[str, Any]]:
    """Return the judge's answers by name; two processes share the questions."""
    names = list(asked)
    parts = [{name: asked[name] for name in names[start::WORKERS]} for start in range(WORKERS)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda part: _ask_part(part, judge, tree, site), parts))
        return {name: answer for part in found for name, answer in part.items()}


def _ask_part(part: Asked, judge: Path, tree: Path, site: Path | None) -> dict[str, dict[str, Any]]:
    start = f"import sys, runpy; sys.path += {[str(site)] if site else []!r}; sys.argv = sys.argv[1:]; "
    command = [sys.executable, "-c", f"{start}runpy.run_path(sys.argv[0], run_name='__main__')"]
    done = subprocess.run(
        [*command, str(PROGRAM), str(judge), str(tree)],
        input=json.dumps(part),
        env={**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"the judge cannot be asked: {done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer.pop("name"): answer for answer in answers}


def judge_version(given: argparse.Namespace) -> None:
    """Ask about one version, and write its file."""
    framework, version, tree = given.framework, given.version, given.tree.resolve()
    changes = generated.mutations(framework) if given.generated else mutations(framework, version)
    name = f"{framework}-generated" if given.generated else framework
    found = _known(given, name)
    asked_for = [change for change in changes if change.id not in found]
    lines = reasons.verl_lines(version) if framework == "verl" else reasons.nemo_rl_lines(given.facts, version)
    with tempfile.TemporaryDirectory() as folder:
        asked, refused = render(framework, version, tree, asked_for, Path(folder))
        answers = ask(asked, given.judge, tree, given.site)
    found |= {name: reasons.verdict(answer, lines) for name, answer in answers.items()}
    found |= dict.fromkeys(refused, (1, reasons.CHART))
    verdicts.write(name, version, {change.id: found[change.id] for change in changes})
    if name == "nemo-rl":
        shipped = ask(_shipped(tree), given.judge, tree, given.site)
        verdicts.write("nemo-rl-shipped", version, {name: reasons.verdict(one, lines) for name, one in shipped.items()})
    if given.answers:
        given.answers.write_text(json.dumps(answers, indent=1), "utf-8")
    if not given.generated:
        print(verdicts.table(framework, version))


def _known(given: argparse.Namespace, name: str) -> dict[str, verdicts.Verdict]:
    """Return the verdicts to keep: with --add those of mutations that were asked about before."""
    there = given.add and verdicts.path(name, given.version).exists()
    return verdicts.read(name, given.version) if there else {}


def _shipped(tree: Path) -> Asked:
    """Return the recipes that the framework ships as questions, in its own words."""
    files = sorted(tree.glob(PATTERN))
    return {file.stem: {"file": str(file), "environment": VARIABLES, "arguments": []} for file in files}


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", nargs="?", choices=list(VERSIONS))
    parser.add_argument("version", nargs="?")
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--facts", type=Path)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--answers", type=Path, help="also write the judge's own words there")
    parser.add_argument("--add", action="store_true", help="ask about new mutations only")
    parser.add_argument("--generated", action="store_true", help="ask about changes drawn from all keys")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args(words)
    if given.floor:
        floor.write()
    elif given.table:
        print(floor.report())
    elif given.tree and given.judge and (given.facts or given.framework == "verl"):
        judge_version(given)
    else:
        parser.error("give FRAMEWORK VERSION TREE --judge PROGRAM (and --facts FILE for nemo-rl), --floor or --table")


if __name__ == "__main__":
    main()
