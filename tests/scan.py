"""Scan rendered stacks with checkov, and compare what it finds with docs/howto/security.md.

`make scan` runs `python -m tests.scan CHECKOV FILE…`. A scanner knows no pod of a RayCluster, so each becomes a Pod.
Exit status 1 if a finding has no reason on the page, or a reason there has no finding.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from postrender.manifests.pods import pods

PAGE = Path(__file__).parents[1] / "docs/howto/security.md"
# The kinds whose pods checkov finds by itself.
KNOWN = ("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "StatefulSet")


def with_pods(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield objects, each followed by the pods that a scanner does not see in it."""
    for document in documents:
        yield document
        for number, pod in enumerate(pods(document) if document["kind"] not in KNOWN else ()):
            about = document["metadata"]
            name = {"name": f"{about['name']}-{number}", "namespace": about.get("namespace", "default")}
            metadata = {**pod.template.get("metadata", {}), **name}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.spec}


def failed(report: Any) -> dict[str, tuple[str, set[str]]]:
    """Return the title and the objects of each check that has failed, by its id."""
    found: dict[str, tuple[str, set[str]]] = {}
    for part in report if isinstance(report, list) else [report]:
        for each in part["results"]["failed_checks"]:
            found.setdefault(each["check_id"], (each["check_name"], set()))[1].add(each["resource"])
    return found


def problems(found: dict[str, tuple[str, set[str]]], page: str) -> list[str]:
    """Return what the page and the findings do not say alike."""
    explained = set(re.findall(r"^\| `(CKV\w*)`", page, re.MULTILINE))
    new = [
        f"{name} ({found[name][0]}) has no reason on the page: {', '.join(sorted(found[name][1]))}"
        for name in sorted(found.keys() - explained)
    ]
    return [*new, *(f"{name} is on the page, and nothing is found" for name in sorted(explained - found.keys()))]


def main(checkov: str, files: list[str]) -> int:
    """Scan the files, which get their pods; print the problems."""
    for file in map(Path, files):
        with file.open(encoding="utf-8") as rendered:
            documents = [each for each in yaml.safe_load_all(rendered) if each]
        file.write_text(yaml.safe_dump_all(with_pods(documents)), encoding="utf-8")
    command = [checkov, "--framework", "kubernetes", "--output", "json", "--compact", "--quiet", "--skip-download"]
    # It ends with 1 where it finds something.
    done = subprocess.run([*command, "--file", *files], stdout=subprocess.PIPE, text=True, check=False)
    found = failed(json.loads(done.stdout))
    said = problems(found, PAGE.read_text(encoding="utf-8"))
    print("\n".join(said) or f"{len(found)} kinds of findings, each with its reason in {PAGE.name}")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
