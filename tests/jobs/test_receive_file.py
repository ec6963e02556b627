"""The program that puts a file on a volume: whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.played import Clock
from tests.programs import PROGRAMS

from .harness import load_program, until

DATA = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(DATA).hexdigest()
NAME = "datasets/mine/train.jsonl"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def words(
    volume: Path, *, size: int = len(DATA), sha256: str = SHA256, mode: str = "keep", step: str = "take"
) -> list[str]:
    return [str(volume), NAME, str(size), sha256, mode, step]


def receive(volume: Path, data: bytes = DATA, **options: Any) -> str:
    """Run the program; return its last line."""
    command = [sys.executable, "-I", PROGRAMS["receive_file"], *words(volume, **options)]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    *beats, last = done.stdout.decode().splitlines()
    assert beats[0] == "at 0"
    assert all(line.startswith("at ") for line in beats)
    return last


def files(volume: Path) -> set[str]:
    return {str(path.relative_to(volume)) for path in volume.rglob("*") if not path.is_dir()}


def test_a_file_arrives_and_is_not_sent_again(volume: Path) -> None:
    assert receive(volume) == "received"
    assert (volume / NAME).read_bytes() == DATA
    before = (volume / NAME).stat()
    # Nothing of stdin is needed for it.
    assert receive(volume, b"") == "there"
    assert (volume / NAME).stat() == before
    assert files(volume) == {NAME}


def test_an_empty_file_arrives(volume: Path) -> None:
    assert receive(volume, b"", size=0, sha256=hashlib.sha256(b"").hexdigest()) == "received"
    assert (volume / NAME).read_bytes() == b""


def test_a_query_transfers_nothing(volume: Path) -> None:
    assert receive(volume, b"", step="ask") == "absent"
    assert files(volume) == set()
    assert receive(volume) == "received"
    assert receive(volume, b"", step="ask") == "there"
    assert receive(volume, b"", step="ask", sha256="0" * 64).startswith("refused ")


def test_a_file_with_different_content_is_replaced_only_on_request(volume: Path) -> None:
    (volume / NAME).parent.mkdir(parents=True)
    for other in (b"other", bytes(len(DATA))):
        (volume / NAME).write_bytes(other)
        assert receive(volume) == f"refused {volume / NAME} has another content"
        assert (volume / NAME).read_bytes() == other
    assert receive(volume, mode="replace") == "received"
    assert (volume / NAME).read_bytes() == DATA


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DATA[:100_000], f"failed the connection ended, 100000 of {len(DATA)} bytes came"),
        (b"", f"failed the connection ended, 0 of {len(DATA)} bytes came"),
        (DATA[:-1] + b"x", "failed other bytes came than were sent: their sha256 differs"),
    ],
)
@pytest.mark.parametrize("mode", ["keep", "replace"])
def test_an_incomplete_transfer_leaves_nothing_behind(volume: Path, data: bytes, said: str, mode: str) -> None:
    if mode == "replace":
        (volume / NAME).parent.mkdir(parents=True)
        (volume / NAME).write_bytes(b"before")
    assert receive(volume, data, mode=mode) == said
    assert files(volume) == ({NAME} if mode == "replace" else set())
    assert mode == "keep" or (volume / NAME).read_bytes() == b"before"


def test_input_after_the_file_is_not_read(volume: Path) -> None:
    """The end of stdin is not waited for either."""
    command = [sys.executable, "-I", PROGRAMS["receive_file"], *words(volume)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(DATA + b"more")
        process.stdin.flush()
        assert process.stdout.read().splitlines()[-1] == b"received"
    assert (volume / NAME).read_bytes() == DATA


def test_a_link_that_leaves_the_volume_is_not_followed(volume: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (volume / "datasets").symlink_to(tmp_path / "outside")
    assert receive(volume) == f"refused {volume}/datasets/mine is a link that leaves {volume}"
    assert not [*(tmp_path / "outside").iterdir()]
    (volume / "datasets").unlink()
    (volume / NAME).parent.mkdir(parents=True)
    (tmp_path / "outside/file").write_bytes(DATA)
    (volume / NAME).symlink_to(tmp_path / "outside/file")
    for mode in ("keep", "replace"):
        assert receive(volume, mode=mode) == f"refused {volume / NAME} is no ordinary file"
    assert (tmp_path / "outside/file").read_bytes() == DATA


def test_a_link_within_the_volume_is_treated_as_a_folder(volume: Path) -> None:
    (volume / "large").mkdir()
    (volume / "datasets").symlink_to("large")
    assert receive(volume) == "received"
    assert files(volume) == {"large/mine/train.jsonl"}


def test_an_existing_folder_with_the_files_name_is_kept(volume: Path) -> None:
    (volume / NAME).mkdir(parents=True)
    assert receive(volume, mode="replace") == f"refused {volume / NAME} is no ordinary file"


def test_no_folder_is_created_in_a_pod_without_the_volume(tmp_path: Path) -> None:
    assert receive(tmp_path / "data") == f"refused this pod has no folder {tmp_path / 'data'}"
    assert not (tmp_path / "data").exists()


def test_stale_drafts_of_the_file_are_deleted(volume: Path) -> None:
    folder = (volume / NAME).parent
    folder.mkdir(parents=True)
    old, new = ".train.jsonl.0123abcd.upload", ".train.jsonl.0123abce.upload"
    others = {".test.jsonl.0123abcd.upload", ".train.jsonl.mybackup.upload", ".train.jsonl.0123abcde.upload"}
    for name in (old, new, *others):
        (folder / name).write_bytes(b"x")
    for name in (old, *others):
        os.utime(folder / name, (time.time() - 90_000,) * 2)
    assert receive(volume) == "received"
    assert {path.name for path in folder.iterdir()} == {"train.jsonl", new, *others}


def in_process(volume: Path, capsys: pytest.CaptureFixture[str], program: Any, **options: Any) -> list[str]:
    """Run the program in this process; return its lines."""
    assert program.main(words(volume, **options)) == 0
    return capsys.readouterr().out.splitlines()


EMPTY = {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def test_a_silent_connection_is_abandoned(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod does not always hear that a connection has ended."""
    program, clock = load_program("receive_file"), Clock()

    def select(*words: Any) -> tuple[list[int], list[int], list[int]]:
        clock.sleep(words[-1])
        return [], [], []

    program.time, program.select = clock, SimpleNamespace(select=select)
    assert in_process(volume, capsys, program)[-1] == f"failed no byte came for 120 s, 0 of {len(DATA)} bytes came"
    assert 120 < clock.moment < 130
    assert not files(volume)


def test_lack_of_space_is_reported_before_anything_is_written(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = SimpleNamespace(f_blocks=1000, f_bavail=10, f_frsize=1000)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    said = in_process(volume, capsys, load_program("receive_file"), size=5_000_000_000)
    assert said == ["at 0", "refused the volume has 0.0 GB left, and the file has 5.0 GB"]
    assert not files(volume)
    # A file system that knows no sizes says zero.
    found.f_blocks = 0
    assert in_process(volume, capsys, load_program("receive_file"), **EMPTY)[-1] == "received"


def test_a_volume_that_fills_up_keeps_no_partial_file(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert in_process(volume, capsys, load_program("receive_file"), **EMPTY)[-1] == "failed No space left on device"
    assert not files(volume)


def test_a_file_created_during_the_copy_wins(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another file of this name comes while this one is copied."""
    program = load_program("receive_file")
    program.copy = lambda *_: (volume / NAME).write_bytes(b"other")
    assert in_process(volume, capsys, program, **EMPTY)[-1] == f"refused {volume / NAME} has another content"
    assert (volume / NAME).read_bytes() == b"other"
    assert files(volume) == {NAME}


@pytest.mark.parametrize(("other", "said"), [(b"other", f"refused {{}}/{NAME} has another content"), (b"", "there")])
def test_a_file_created_at_the_last_moment_is_not_lost(
    volume: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, other: bytes, said: str
) -> None:
    """Another file of this name comes after the last look."""
    link = os.link

    def late(draft: Path, file: Path) -> None:
        file.write_bytes(other)
        link(draft, file)

    monkeypatch.setattr(os, "link", late)
    assert in_process(volume, capsys, load_program("receive_file"), **EMPTY)[-1] == said.format(volume)
    assert (volume / NAME).read_bytes() == other
    assert files(volume) == {NAME}


def test_a_volume_without_hard_links_receives_the_file(
    volume: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    assert in_process(volume, capsys, load_program("receive_file"), **EMPTY)[-1] == "received"
    assert files(volume) == {NAME}


def test_a_replaced_file_keeps_its_mode(volume: Path) -> None:
    (volume / NAME).parent.mkdir(parents=True)
    (volume / NAME).write_bytes(b"other")
    (volume / NAME).chmod(0o664)
    assert receive(volume, mode="replace") == "received"
    assert (volume / NAME).stat().st_mode & 0o777 == 0o664


def test_a_slow_volume_produces_progress_messages(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program says that it lives while it waits for the volume."""
    program = load_program("receive_file")
    program.BEAT_SECONDS = 0.01
    printed: list[str] = []

    def slow(*_: Any) -> None:
        until(lambda: printed.append(capsys.readouterr().out) or "".join(printed).count("at 0\n") > 3, "signs of life")

    program.copy = slow
    assert in_process(volume, capsys, program, **EMPTY)[-1] == "received"
