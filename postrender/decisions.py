"""Decide what happens where something is there already and differs from what the wiring wants."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from postrender.plain import Plain

FAIL: Final = "fail"
KEEP: Final = "keep"
REPLACE: Final = "replace"
POLICIES: Final = (FAIL, KEEP, REPLACE)


class Decisions:
    """Apply one policy to the conflicts of one object, and remember them; `place` names the part of a pod."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.conflicts: list[dict[str, Any]] = []

    def replaces(self, place: str, there: Plain, wanted: Plain) -> bool:
        """Note a conflict, and say whether what is there is to be replaced.

        A value that stands where a Secret should be named may be the secret itself, whatever its shape.
        """
        if isinstance(wanted, dict) and "valueFrom" in wanted and isinstance(there, dict) and "value" in there:
            there = {**there, "value": "(a literal value, which is not shown)"}
        if isinstance(there, dict) and "env" in there:
            there = {key: value for key, value in there.items() if key != "env"}
        self.conflicts.append({"at": place, "there": there, "wanted": wanted, "decision": self.policy})
        return self.policy == REPLACE

    def named(self, place: str, there: list[Plain], wanted: list[dict[str, Any]], key: str = "name") -> list[Plain]:
        """Return a list whose entries have names: what lacks stands in front, in its order, the rest where it was."""
        result = list(there)
        lacking = []
        # Of two entries with one name Kubernetes uses the last.
        found = {str(each.get(key)): at for at, each in enumerate(there) if isinstance(each, dict)}
        for entry in wanted:
            at = found.get(entry[key])
            if at is None:
                lacking.append(entry)
            elif there[at] != entry and self.replaces(f"{place}[{entry[key]}]", there[at], entry):
                result[at] = entry
        return [*lacking, *result]

    def entries(self, place: str, there: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Return a map with what lacks added."""
        result = dict(there)
        for key, value in wanted.items():
            if key not in there or (there[key] != value and self.replaces(f"{place}[{key}]", there[key], value)):
                result[key] = value
        return result
