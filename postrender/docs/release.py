"""Say whether a tag may be published: `python -m postrender.docs.release v1.2.3 dist`; the release workflow asks."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from postrender import __version__, paths

CHARTS = ("common", *paths.LAYERS)


def _chart_versions(root: Path) -> dict[str, str]:
    """Return what each Chart.yaml says, its dependency on the library chart included."""
    found: dict[str, str] = {}
    for chart in CHARTS:
        text = (root / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8")
        content: dict[str, Any] = yaml.safe_load(text)
        found[f"charts/{chart}/Chart.yaml"] = str(content["version"])
        for dependency in content.get("dependencies", []):
            found[f"charts/{chart}/Chart.yaml, dependency {dependency['name']}"] = str(dependency["version"])
    return found


def problems(tag: str, dist: Path, root: Path) -> list[str]:
    """Return one sentence for each thing that contradicts the tag; none when it may be published."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return [f"the tag is {tag!r}, expected vX.Y.Z"]
    version = tag[1:]
    reader = tomllib.loads((root / "reader/Cargo.toml").read_text(encoding="utf-8"))["package"]["version"]
    versions = {"postrender/__init__.py": __version__, "reader/Cargo.toml": reader, **_chart_versions(root)}
    found = [f"{place} says {each}, the tag says {version}" for place, each in versions.items() if each != version]
    expected = {f"{layer}-{version}.tgz" for layer in paths.LAYERS} | {f"grpo_charts-{version}-py3-none-any.whl"}
    present = {path.name for path in dist.iterdir()} if dist.is_dir() else set()
    found += [f"{dist} lacks {name}: make dist" for name in sorted(expected - present)]
    found += [f"{dist} holds {name}, which is not of this version" for name in sorted(present - expected)]
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} – \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no line `## {version} – YYYY-MM-DD`")
    return found


def main() -> int:
    """Judge the tag and the folder that the command line names."""
    if len(sys.argv) != 3:
        print("usage: python -m postrender.docs.release TAG FOLDER", file=sys.stderr)
        return 2
    found = problems(sys.argv[1], Path(sys.argv[2]), Path(paths.data_root()))
    for sentence in found:
        print(f"::error::{sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
