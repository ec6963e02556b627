"""Post-render real streams and prove every one: python tests/corpus/fidelity.py DIR...

A DIR holds charts, which are rendered with their defaults, and manifests, which are taken as they are. Nothing of what
is found there is kept. Run by hand with charts of many projects; see --help.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from postrender.wiring.apply import Options  # noqa: E402
from tests.corpus import proof  # noqa: E402

_RENDER = """
import sys
from postrender.helm import Embedded
with Embedded() as helm:
    sys.stdout.buffer.write(helm.render(sys.argv[1], notes=False).manifest.encode())
"""
_START = "import sys; from postrender.main import main; sys.exit(main())"
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
_VALUES = [
    str(ROOT / f"values/{name}.yaml") for name in ("accelerators/b200", "recipes/gemma3-27b-gsm8k", "examples/site")
]
_MANY = ("node_modules", "testdata", ".git")


def streams(folder: Path, counts: collections.Counter[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of what the charts of a folder render to, and of its manifests."""
    charts = [path.parent for path in sorted(folder.rglob("Chart.yaml"))]
    for chart in charts:
        done = render(chart)
        counts["charts" if done.returncode == 0 else "charts that do not render"] += 1
        if done.returncode == 0:
            yield f"{chart}", done.stdout
        elif done.stderr:
            counts[f"  {reason(done.stderr)}"] += 1
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml"), *folder.rglob("*.json")]):
        inside = any(path.is_relative_to(chart) for chart in charts)
        data = b"" if inside or not path.is_file() else path.read_bytes()
        if b"apiVersion" in data and b"{{" not in data:
            counts["manifests"] += 1
            yield str(path), data


def render(chart: Path) -> subprocess.CompletedProcess[bytes]:
    """Render one chart in a process of its own."""
    command = [sys.executable, "-c", _RENDER, str(chart)]
    try:
        return subprocess.run(command, check=False, capture_output=True, env=_ENVIRONMENT, timeout=60)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, b"", b"timeout")


def reason(log: bytes) -> str:
    """Return what a chart lacks, in a few words."""
    text = log.decode("utf-8", "replace")
    for words in ("missing in charts/ directory", "timeout", "kubeVersion", "library"):
        if words in text:
            return words
    return "values that have no default, or another error of the chart"


def as_process(data: bytes) -> bytes | None:
    """Post-render a stream as Helm does; None where it is refused."""
    words = [word for file in _VALUES for word in ("--values", file)]
    done = subprocess.run(
        [sys.executable, "-c", _START, *words, "--no-gate", "--on-conflict", "replace"],
        check=False, input=data, capture_output=True, env={**_ENVIRONMENT, "HELM_PLUGIN_NAME": ""},
    )  # fmt: skip
    if b"Traceback" in done.stderr:
        raise proof.FidelityError(done.stderr.decode())
    return done.stdout if done.returncode == 0 else None


class Proofs:
    """Count what was proved, and keep what failed."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.refused: list[str] = []

    def stream(self, name: str, data: bytes, sample: int) -> None:
        """Prove one stream in every way."""
        self.counts["streams"] += 1
        self.counts["bytes"] += len(data)
        plain = self._prove("as it is", name, data, "replace", gate=False)
        with proof.every_pod_a_target():
            for policy in ("keep", "replace"):
                self._prove(f"every pod wired, {policy}", name, data, policy, gate=False)
        self._gate(name, data)
        if plain and sample and self.counts["streams"] % sample == 0:
            self.counts["run as a process"] += 1
            output = as_process(data)
            if output != (plain.output if plain.passed else None):
                self.failures.append(f"{name}: the process answers otherwise")

    def _prove(self, way: str, name: str, data: bytes, policy: str, *, gate: bool) -> proof.Outcome | None:
        try:
            outcome = proof.prove(data, proof.wiring(), Options(policy=policy), gate=gate)
        except Exception as error:  # what is not GrpoError is a failure too
            self.failures.append(f"{name} ({way}): {type(error).__name__}: {error}"[:2000])
            return None
        if outcome.error:
            self.counts[f"{way}: input errors"] += 1
            self.refused.append(f"{name} ({way}): {outcome.error}".replace("\n", " "))
        self.counts[f"{way}: documents"] += outcome.documents
        self.counts[f"{way}: targets"] += outcome.targets
        return outcome

    def _gate(self, name: str, data: bytes) -> None:
        outcome = self._prove("with the gate", name, data, "fail", gate=True)
        if outcome and outcome.refusals:
            self.counts["with the gate: streams refused"] += 1
            self.refused += [f"{name}: {each}" for each in outcome.refusals[:3]]


def main() -> int:
    """Prove everything in the folders; return 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--sample", type=int, default=25, help="run every n-th stream as a process too, 0 for none")
    parser.add_argument("--list", action="store_true", help="list what was refused, and why")
    options = parser.parse_args()
    begin = time.monotonic()
    proofs = Proofs()
    for folder in options.folders:
        for name, data in streams(folder, proofs.counts):
            proofs.stream(name, data, options.sample)
    for key, count in sorted(proofs.counts.items()):
        print(f"{count:>12,}  {key}")
    print(f"{time.monotonic() - begin:>12.0f}  seconds")
    for text in proofs.refused if options.list else ():
        print(f"refused: {text}")
    for text in proofs.failures:
        print(f"FAILED: {text}")
    return 1 if proofs.failures else 0


if __name__ == "__main__":
    sys.exit(main())
