"""Generated facts are read as JSON, and a damaged installation says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrender import facts, paths
from postrender.errors import InstallationError


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff"])
def test_a_missing_or_damaged_file_is_reported_as_a_broken_installation(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "data_root", lambda: str(tmp_path))
    if content is not None:
        (tmp_path / "schemas/generated").mkdir(parents=True)
        (tmp_path / "schemas/generated/a.json").write_bytes(content)
    with pytest.raises(InstallationError, match=r"a generated file cannot be read: .*a\.json"):
        facts.load("a.json")
