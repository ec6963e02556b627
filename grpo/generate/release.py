"""Package the charts, and check whether a tag may be published.

`make dist` runs `python -m grpo.generate.release package FOLDER`, and the release workflow
`python -m grpo.generate.release check TAG FOLDER`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from grpo.helm.engines import Embedded
from postrender import __version__, paths

CHARTS = ("common", *paths.LAYERS)
# What the wheel installs, at the versions of tools/release/runtime.txt.
SBOM = "grpo-charts.cdx.json"


def package(destination: Path) -> list[Path]:
    """Write one .tgz for each layer's chart and return their paths; each contains the library chart."""
    destination.mkdir(parents=True, exist_ok=True)
    with Embedded() as engine:
        return [Path(engine.package(paths.chart(layer), str(destination.resolve()))) for layer in paths.LAYERS]


def _chart_versions(root: Path) -> dict[str, str]:
    """Return the version in each Chart.yaml, and the versions of its dependencies."""
    found: dict[str, str] = {}
    for chart in CHARTS:
        text = (root / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8")
        content: dict[str, Any] = yaml.safe_load(text)
        found[f"charts/{chart}/Chart.yaml"] = str(content["version"])
        if "appVersion" in content:
            found[f"charts/{chart}/Chart.yaml, appVersion"] = str(content["appVersion"])
        for dependency in content.get("dependencies", []):
            found[f"charts/{chart}/Chart.yaml, dependency {dependency['name']}"] = str(dependency["version"])
    return found


def problems(tag: str, dist: Path, root: Path) -> list[str]:
    """Return one sentence for each conflict with the tag; empty if the tag may be published."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return [f"the tag is {tag!r}, expected vX.Y.Z"]
    version = tag[1:]
    versions = {"postrender/__init__.py": __version__, **_chart_versions(root)}
    found = [f"{place} says {each}, the tag says {version}" for place, each in versions.items() if each != version]
    expected = {f"{layer}-{version}.tgz" for layer in paths.LAYERS} | {f"grpo_charts-{version}-py3-none-any.whl", SBOM}
    present = {path.name for path in dist.iterdir()} if dist.is_dir() else set()
    found += [f"{dist} lacks {name}: make dist" for name in sorted(expected - present)]
    found += [f"{dist} holds {name}, which is not of this version" for name in sorted(present - expected)]
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} – \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no line `## {version} – YYYY-MM-DD`")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return exit status 0, or 1 if the tag may not be published, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m grpo.generate.release", description="package and check a release")
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("package", help="write one .tgz for each chart")
    packing.add_argument("folder", type=Path)
    checking = commands.add_parser("check", help="list what contradicts a tag")
    checking.add_argument("tag")
    checking.add_argument("folder", type=Path)
    options = parser.parse_args(argv)
    if options.command == "package":
        for archive in package(options.folder):
            print(archive.name)
        return 0
    found = problems(options.tag, options.folder, Path(paths.data_root()))
    for sentence in found:
        print(f"::error::{sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
