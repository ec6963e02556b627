"""Files that commands write: nothing of a user's is lost, and no other module writes any."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo.live import bundle
from postrender import output_file
from postrender.errors import OutputError, OutputRefusedError
from tests.conftest import ROOT, Points
from tests.jobs import faults
from tests.live import bundles

MARK = b"# Ours.\n"
OLD, NEW = MARK + b"old\n" * 3000, MARK + b"new\n" * 3000


@pytest.mark.parametrize("content", [b"mine\n", b"# Our", b" # Ours.\n", b"\0"])
def test_a_foreign_file_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(OutputRefusedError, match="was not written by this command"):
        output_file.write(str(path), NEW, mark=MARK)
    assert path.read_bytes() == content
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("content", [None, b"", MARK, OLD])
def test_new_and_empty_files_and_our_own_are_written(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o640)
    output_file.write(str(path), NEW, mark=MARK)
    assert path.read_bytes() == NEW
    assert [*tmp_path.iterdir()] == [path]
    assert path.stat().st_mode & 0o777 == (0o666 & ~umask() if content is None else 0o640)


def umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_without_a_mark_no_existing_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    output_file.write(str(path), OLD, mark=b"")
    with pytest.raises(OutputRefusedError, match="exists, and this command never overwrites a file"):
        output_file.write(str(path), NEW, mark=b"")
    assert path.read_bytes() == OLD


def test_links_folders_pipes_and_inputs_are_rejected_as_outputs(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(OLD)
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    os.link(file, tmp_path / "same")
    for name, why in {
        "link": "is a symbolic link",
        "broken": "is a symbolic link",
        "folder": "is a folder",
        "pipe": "is no ordinary file",
        "same": "is a file that is to be read",
    }.items():
        with pytest.raises(OutputRefusedError, match=rf"{name}: {why}.*\n  fix: name "):
            output_file.write(str(tmp_path / name), NEW, mark=MARK, inputs=["-", "absent", str(file)])
    with pytest.raises(OutputRefusedError, match="is no ordinary file"):
        output_file.write("/dev/null", NEW, mark=MARK)
    with pytest.raises(OutputError, match="there is no folder"):
        output_file.write(str(tmp_path / "no/file"), NEW, mark=MARK)
    assert file.read_bytes() == OLD
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("old", [None, OLD])
def test_a_file_is_old_or_new_after_a_fault_at_any_call(tmp_path: Path, points: Points, old: bytes | None) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    store.mkdir()
    path = root / "file"
    if old is not None:
        path.write_bytes(old)

    def run() -> None:
        try:
            output_file.write(str(path), NEW, mark=MARK)
        except OutputError as error:
            raise OSError from error

    for what in faults.outcomes(root, store, run, (*faults.ERRORS, faults.STOP)):
        points.add(what)
        assert (path.read_bytes() if path.exists() else None) in (old, NEW), what
        drafts = [each.name for each in root.iterdir() if each != path]
        if what.startswith(("error", "late error", "full", "stop")) and "unlink" not in what:
            assert drafts == [], what
        assert all(name.startswith(output_file.DRAFT) for name in drafts), what
    assert points.all() > 40


def test_a_bundle_replaces_only_a_bundle(tmp_path: Path) -> None:
    path, foreign = tmp_path / "evidence.tar.gz", tmp_path / "other.tar.gz"
    bundles.write(path)
    bundles.write(path)
    assert path.read_bytes().startswith(bundle.MARK)
    assert bundle.read(str(path)) == bundle.read(str(path))
    foreign.write_bytes(b"\x1f\x8b\x08\0 an archive of somebody")
    with pytest.raises(OutputRefusedError):
        bundles.write(foreign)


# What may call these, and why.
WRITERS = {
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "move",
    "replace",
    "rename",
    "renames",
    "link",
    "symlink",
    "truncate",
}
WRITERS |= {
    "unlink",
    "remove",
    "rmdir",
    "rmtree",
    "write_text",
    "write_bytes",
    "mkstemp",
    "NamedTemporaryFile",
    "TemporaryFile",
    "ZipFile",
    "ftruncate",
}
OF_MODULES = {"os", "shutil", "tempfile", "zipfile"}
ALLOWED = {
    ("grpo/check/helm_chart.py", "copytree"),  # a copy of a chart, in a temporary folder
    ("grpo/cli/jobs/packing.py", "ZipFile"),  # in memory
    ("grpo/cli/plugin.py", "unlink"),  # a link to a folder of ours
    ("grpo/cli/output.py", "open"),  # /dev/null in the place of a stream
    ("postrender/main.py", "open"),  # stdout, and /dev/null in its place
    ("grpo/helm/engines.py", "TemporaryFile"),  # these have no names
    ("grpo/helm/kubectl.py", "TemporaryFile"),
    ("grpo/helm/worker.py", "symlink"),  # a copy of a chart, in a temporary folder
    ("grpo/manifests/export.py", "unlink"),  # what its index lists
    ("grpo/live/bundle.py", "open"),  # in memory
    ("grpo/rewards/trial.py", "open"),  # only to read, without waiting for a pipe
}


def writers(tree: ast.AST) -> Iterator[str]:
    """Yield the names of calls that can write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        owner = function.value if isinstance(function, ast.Attribute) else None
        module = owner.id if isinstance(owner, ast.Name) else ""
        if name in WRITERS and (module in OF_MODULES or name.startswith("write_")):
            yield name
        if name == "open" and (owner is None or module in ("os", "io", "tarfile", "gzip", "zipfile")):
            modes = [each.value for each in node.keywords if each.arg == "mode"] + node.args[1:2]
            for mode in modes:
                text = mode.value if isinstance(mode, ast.Constant) else "w"
                if set(str(text).partition(":")[0]) & set("wxa+"):
                    yield name
        elif name == "open" and node.args and isinstance(node.args[0], ast.Constant):
            # Of a path, which has its mode first.
            letters = set(str(node.args[0].value))
            yield from [name] * (letters <= set("rwxab+t") and bool(letters & set("wxa+")))


def test_no_other_module_writes_files() -> None:
    """grpo/generate writes what `make generate` puts into the repository."""
    found = set()
    for path in (path for name in ("grpo", "postrender") for path in (ROOT / name).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name != "postrender/output_file.py" and not name.startswith("grpo/generate/"):
            found |= {(name, call) for call in writers(ast.parse(path.read_text("utf-8")))}
    assert found == ALLOWED
