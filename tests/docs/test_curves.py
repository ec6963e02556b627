"""The pictures of the signs in docs/howto/metrics.md."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from grpo.generate import curves
from grpo.generate.sources import SourceError
from grpo.runlog.shared import SIGNS
from tests.conftest import ROOT


def test_the_page_shows_a_picture_of_every_sign() -> None:
    pictures = curves.render(ROOT)
    assert {path.rpartition("/")[2].removesuffix(".svg") for path in pictures} == SIGNS.keys()
    page = (ROOT / "docs/howto/metrics.md").read_text()
    assert {f"docs/{each}" for each in re.findall(r"\]\(\.\./(metrics/[\w-]+\.svg)\)", page)} == pictures.keys()
    for text in pictures.values():
        ElementTree.fromstring(text)  # noqa: S314 (our own)
        assert ("found at" in text, "real: " in text or "synthetic: " in text) == (True, True)


def test_a_curve_without_its_sign_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(curves.SIGNS, "slow-steps", curves.Sign("seconds", "Time", lambda step, count: None))
    with pytest.raises(SourceError, match="the sign slow-steps is at step 0 of the bad curve"):
        curves.render(ROOT)
