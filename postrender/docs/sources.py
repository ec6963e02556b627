"""Read the hand-written schema sources: schemas/values/*.yaml and schemas/tokens.yaml.

A source is draft-07 with a few keys of our own: `x-unit`, `x-source`, `x-requiredIn`, `x-verbatim`,
`x-kubernetes` (a definition of Kubernetes, without the fields of `x-without`), `x-nullable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrender import yamlio
from postrender.docs.files import reference_name
from postrender.errors import InputError

Schema = dict[str, Any]

SECTIONS = (
    "stack",
    "platform",
    "accelerator",
    "network",
    "storage",
    "huggingface",
    "tracking",
    "images",
    "ray",
    "job",
    "checks",
)
# Which chart reads which section; every chart checks the spelling of all of them.
CHARTS: Mapping[str, tuple[str, ...]] = {
    "network": ("stack", "platform", "accelerator", "network"),
    "storage": ("stack", "platform", "storage"),
    "raycluster": tuple(s for s in SECTIONS if s not in ("job", "checks")),
    "grpo-job": SECTIONS,
}
# Where the template itself says what is missing, because it can say it better than a schema.
LEFT_TO_TEMPLATE = ("accelerator",)


class SourceError(InputError):
    """The schema sources are not fit to generate from; the text has one problem a line."""


@dataclass(frozen=True)
class Sources:
    """The schema sources: section and shared definitions by name, token patterns by name."""

    sections: Mapping[str, Schema]
    defs: Mapping[str, Schema]
    tokens: Mapping[str, str]

    @property
    def token_pattern(self) -> str:
        """One pattern that matches a text with any of the tokens in it."""
        return "|".join(self.tokens.values())

    def resolve(self, node: Schema) -> Schema:
        """Return the node with its shared definition, if any, merged under it."""
        if "$ref" not in node:
            return node
        rest = {k: v for k, v in node.items() if k != "$ref"}
        return {**self.defs[reference_name(node["$ref"])], **rest}


def load(root: Path) -> Sources:
    """Read the sources below the repository root; raise SourceError for a missing or unknown file."""
    folder = root / "schemas" / "values"
    missing = [s for s in SECTIONS if not (folder / f"{s}.yaml").is_file()]
    extra = sorted({p.stem for p in folder.glob("*.yaml")} - {*SECTIONS, "_defs"})
    if missing or extra:
        raise SourceError(f"schemas/values: expected one file a section; missing: {missing}, unknown: {extra}")
    return Sources(
        {s: _read(folder / f"{s}.yaml") for s in SECTIONS},
        _read(folder / "_defs.yaml"),
        _read(root / "schemas" / "tokens.yaml"),
    )


def _read(path: Path) -> Schema:
    content: Schema = yamlio.load_values(path).plain()
    return content


def all_required(node: Schema) -> set[str]:
    """Return the keys that an object requires in any chart."""
    return {*node.get("required", ()), *(k for keys in node.get("x-requiredIn", {}).values() for k in keys)}
