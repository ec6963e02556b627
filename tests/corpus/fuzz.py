"""Damage streams, guided by what runs in postrender/, and prove what comes out.

    python tests/corpus/fuzz.py --seconds 600

With atheris (pip install atheris, no dependency of the project) new branches of the code steer what is tried next;
without it the damage is random. Failing streams are written into --out, one for each kind of failure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

atheris: Any = None
with contextlib.suppress(ImportError):
    import atheris  # type: ignore[no-redef, import-untyped]

if atheris:
    with atheris.instrument_imports(include=["postrender"]):
        from postrender.wiring import apply  # noqa: F401

from postrender.wiring.apply import Options  # noqa: E402
from postrender.wiring.transforms import POLICIES  # noqa: E402 (the checkout comes first, and atheris before that)
from tests.corpus import mutate, proof  # noqa: E402

_PROFILES = ("b200", "h200", "rtx-pro-6000", "cpu")


class Fuzzer:
    """Try streams, and keep one of each kind that fails."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out = out
        self.tried = self.targets = self.passed = 0
        self.failures: dict[str, Path] = {}
        self._end = time.monotonic() + seconds

    def try_one(self, draw: mutate.Draw) -> None:
        """Damage a stream, and prove what comes out in one of the ways."""
        data = mutate.stream(draw)
        for _ in range(draw(6)):
            data = mutate.mutated(data, draw)
        using = proof.wiring(_PROFILES[draw(len(_PROFILES))] if draw(4) == 0 else "b200")
        options, way = Options(policy=POLICIES[draw(len(POLICIES))], init_containers=draw(4) == 0), draw(3)
        self.tried += 1
        try:
            if way == 0:
                with proof.every_pod_a_target():
                    outcome = proof.prove(data, using, options)
            else:
                outcome = proof.prove(data, using, options, gate=way == 1)
        except Exception as error:  # whatever is not GrpoError is a failure
            self._keep(error, data)
            return
        self.targets += outcome.targets
        self.passed += outcome.passed

    def _keep(self, error: Exception, data: bytes) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} {str(error)[:40]!r} in {Path(last.filename).name}:{last.lineno}"
        if kind not in self.failures:
            path = self.out / f"{len(self.failures)}.yaml"
            path.write_bytes(data)
            self.failures[kind] = path
            print(f"FAILED: {kind}: {path}", flush=True)

    def is_over(self) -> bool:
        """Say whether the time is up."""
        return time.monotonic() > self._end

    def report(self) -> int:
        """Say what was done; return 1 where something failed."""
        done = f"{self.tried:,} streams, {self.passed:,} passed on, {self.targets:,} targets"
        print(f"{done}, {len(self.failures)} kinds of failure")
        return 1 if self.failures else 0


def _guided(fuzzer: Fuzzer, seconds: int) -> None:
    def once(data: bytes) -> None:
        provider: Any = atheris.FuzzedDataProvider(data)
        fuzzer.try_one(lambda below: provider.ConsumeIntInRange(0, below - 1) if below > 1 else 0)
        if fuzzer.is_over():
            # atheris ends the process by itself and says nothing.
            code = fuzzer.report()
            sys.stdout.flush()
            os._exit(code)

    words = [
        sys.argv[0],
        "-max_len=400",
        "-len_control=0",
        "-timeout=60",
        "-rss_limit_mb=4096",
        f"-max_total_time={seconds + 60}",
    ]
    atheris.Setup(words, once)
    atheris.Fuzz()


def _random(fuzzer: Fuzzer, seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 (no secret)
    while not fuzzer.is_over():
        fuzzer.try_one(numbers.randrange)


def main() -> int:
    """Try streams until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="where there is no atheris")
    parser.add_argument("--out", type=Path, help="where failing streams are written")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="grpo-fuzz-"))
    out.mkdir(parents=True, exist_ok=True)
    fuzzer = Fuzzer(out, options.seconds)
    if atheris:
        _guided(fuzzer, options.seconds)
    else:
        _random(fuzzer, options.seed)
    return fuzzer.report()


if __name__ == "__main__":
    sys.exit(main())
