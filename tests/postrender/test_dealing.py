"""What a document is, is known without reading it where that is certain."""

from __future__ import annotations

import pytest

from postrender import stream
from postrender.dealing import _kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "Pod"),
        ("kind: Pod # kind: Job\nmetadata:\n  kind: x\n", "Pod"),
        ("kind: Pod\n", "Pod"),
        ("kind: Pod", "Pod"),
        ("kind: 'Pod'\n", None),
        ("metadata:\n  kind: Pod\n", None),
        ("kind: ConfigMap\nkind: Pod\n", None),
        ("a: 1\nkind: ConfigMap\n'kind': Pod\n", None),
        ('a: 1\nkind: kind\na: kind\n"kind": Pod\n', None),
    ],
)
def test_a_kind_is_known_where_it_stands_once(text: str, kind: str | None) -> None:
    (document,) = stream.split(text.encode())
    assert _kind(document) == kind
    *_, last = stream.split(b"---\nkind: Job\n---\n" + text.encode())
    assert _kind(last) == kind
