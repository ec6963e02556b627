"""The prices that `grpo plan` uses: from --price, or from the values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grpo.cli.command import wrong
from grpo.plan import cost
from grpo.values import machine_names
from grpo.values.config import RunConfig


class Prices(NamedTuple):
    """The prices per GPU hour given on the command line: one for every machine, or one per accelerator profile."""

    every: float | None
    of: Mapping[str, float]

    @classmethod
    def read(cls, text: str | None, machines: Sequence[str]) -> Prices:
        """Read 5.5, or b200=5.5,h200=3.8 for some of the planned machines; raise UsageError for anything else."""
        if text is None:
            return cls(None, {})
        if "=" not in text:
            return cls(_dollars(text), {})
        found: dict[str, float] = {}
        for part in text.split(","):
            word, equals, dollars = part.partition("=")
            if not equals:
                what = f"--price is {text!r}, expected one price, or one for each machine: b200=5.5,h200=3.8"
                raise wrong(what)
            name = machine_names.profile(word)
            if name not in machines:
                fix = f"give prices of {', '.join(machines)}" if machines else "name the machine with --accelerator"
                raise wrong(f"--price is of {name}, and no plan for it is asked for", fix=fix)
            if name in found:
                raise wrong(f"--price has two prices of {name}", fix="leave one out")
            found[name] = _dollars(dollars)
        return cls(None, found)

    def price(self, machine: str | None, run: RunConfig) -> float | None:
        """Return a machine's price per GPU hour: from the command line, or else from the values."""
        return self.every or self.of.get(machine or "") or cost.price(run)


def _dollars(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise wrong(f"--price is {text}, expected dollars an hour for one GPU, above 0")
    return found
