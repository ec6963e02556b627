"""What the values accept: `checks.ignore` lists rule ids, each with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# The gate refuses these whatever the values say: Helm keeps a secret in its releases, and of what is there twice
# the API server drops one without a word.
_ALWAYS: Final = ("secrets/literal-token", "stream/", "pods/duplicate-merge-key")


def given(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return checks.ignore from plain values; {} if it is not a map."""
    checks = tree.get("checks")
    ignored = checks.get("ignore") if isinstance(checks, dict) else None
    return ignored if isinstance(ignored, dict) else {}


def passes_gate(rule: str) -> bool:
    """Return whether the gate passes a stream whose findings of this rule have been accepted."""
    return not rule.startswith(_ALWAYS)
