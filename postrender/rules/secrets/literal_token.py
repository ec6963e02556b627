"""No secret stands in a manifest."""

from __future__ import annotations

import binascii

from postrender import tokens
from postrender.pods import mapping
from postrender.rules import ERROR, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Hit]:
    """Search every text, and what Secret objects hold in base64."""
    for document, text in enumerate(manifests.texts):
        for token in tokens.find(text):
            yield Hit(document, f"looks like a secret of the kind {token.shape}", line=token.line, secret=True)
    for item in manifests.items:
        if item.object.get("kind") != "Secret":
            continue
        for key, value in mapping(item.object.get("data")).items():
            if shape := tokens.shape_of(_decoded(value)):
                what = f"{item.title}: its data hold a secret of the kind {shape}"
                yield Hit(item.document, what, path=(*item.path, "data", key), secret=True)


def _decoded(value: object) -> str:
    try:
        return binascii.a2b_base64(str(value).encode()).decode("utf-8", "replace")
    except ValueError:
        return ""


RULE = Rule(
    "secrets/literal-token",
    severity=ERROR,
    title="a manifest holds a secret",
    why="Helm stores manifests in the release, where helm get manifest shows them, and reviews and logs keep them",
    fix="revoke it, put the new one into a Kubernetes Secret and refer to that by name",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    check=check,
)
