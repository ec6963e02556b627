"""The post-renderer starts with the code of its modules from one file, and without it as well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import streams
from postrender import start, yamlfast
from tests.conftest import ROOT

STREAM = streams.stream("small")
WORDS = [f"--values={ROOT / 'values' / name}" for name in ("accelerators/b200.yaml", "examples/site.yaml")]
# What was loaded is told behind the stream.
CODE = """\
import os, sys
sys.path.insert(0, {root!r})
ends = os._exit
def tell(code):
    for name, module in sys.modules.items():
        sys.stderr.write(f"{{name}} {{getattr(module, '__file__', None)}}\\n")
    sys.stderr.flush()
    ends(code)
os._exit = tell
{before}
from postrender.start import post_render
post_render()
"""
# Modules that Python itself looks for, one after the other.
SEEN = """\
class Seen:
    def find_spec(self, name, path=None, target=None):
        sys.stderr.write(f"looked for {name}\\n")
sys.meta_path.insert(0, Seen())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, of which nothing is compiled."""
    shutil.copytree(ROOT / "postrender", tmp_path / "postrender", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(root: Path, *words: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program of a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HELM_", "GRPO_"))}
    return subprocess.run(
        [sys.executable, *words, "-c", CODE.format(root=str(root), before=before), *WORDS, "--no-gate"],
        check=False,
        input=STREAM,
        capture_output=True,
        cwd=root,
        env=kept | environment,
    )


def kept(root: Path) -> list[Path]:
    """Return the files with the code of all modules."""
    return [*root.rglob("*.all*")]


def looked_for(done: subprocess.CompletedProcess[bytes]) -> set[str]:
    """Return the modules of the package that Python has looked for, but what reads YAML in place of `grpo_reader`."""
    seen = {*re.findall(r"looked for postrender\.(\w+)", done.stderr.decode())}
    return seen if yamlfast.is_compiled() else seen & {"start", *start.MODULES}


def test_the_second_start_looks_for_no_module(root: Path) -> None:
    first, second = run(root, before=SEEN), run(root, before=SEEN)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr.decode()
    assert first.stdout == second.stdout
    assert first.stdout.count(b"NCCL_") > 1
    assert looked_for(first) == {"start", *start.MODULES}
    assert looked_for(second) == {"start"}


def test_modules_are_as_an_import_makes_them(root: Path) -> None:
    code = """\
import sys
sys.path.insert(0, {root!r})
from postrender import start
if {one}:
    start._load(start._kept())
import importlib.util, inspect
for name in start.MODULES:
    module = importlib.import_module("postrender." + name)
    assert getattr(sys.modules["postrender"], name) is module
    spec = module.__spec__
    names = sorted(each for each in vars(module) if each not in ("__builtins__", "__cached__"))
    print(name, names, module.__file__, module.__package__, type(module.__loader__).__name__, module.__doc__[:20])
    print(spec.name, spec.origin, type(spec.loader).__name__, spec.parent, len(inspect.getsource(module)))
    print(importlib.util.find_spec("postrender." + name) is spec)
print(start.sys.modules["postrender.rewrite"].Rewriter.run.__code__.co_filename)
"""
    assert run(root).returncode == 0
    said = [
        subprocess.run(
            [sys.executable, "-c", code.format(root=str(root), one=one)], check=True, capture_output=True, text=True
        ).stdout
        for one in (False, True)
    ]
    assert said[0] == said[1]
    assert said[0].count("\n") == 3 * len(start.MODULES) + 1


def test_an_edited_source_counts_at_once(root: Path) -> None:
    assert b"another text" not in run(root).stderr
    source = root / "postrender/filter.py"
    source.write_text(source.read_text() + '\nsys.stderr.write("another text\\n")\n')
    for looks in ({"start", "filter"}, {"start"}):
        done = run(root, before=SEEN)
        assert (done.returncode, b"another text" in done.stderr) == (0, True)
        assert looked_for(done) & {"start", "filter"} == looks


def test_a_package_that_moved_is_read_where_it_is(root: Path) -> None:
    one, other = run(root), (root / "postrender").rename(root / "old") and root / "other"
    other.mkdir()
    (root / "old").rename(other / "postrender")
    done = run(other)
    assert done.stdout == one.stdout
    assert f"postrender.filter {other}/postrender/filter.py" in done.stderr.decode()


def cut(file: Path) -> None:
    """Leave half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": cut,
    "no code": lambda file: file.write_bytes(b"x" * 1000),
    "no code behind a sound beginning": lambda file: file.write_bytes(file.read_bytes()[:1600] + b"\xff" * 1000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_written_anew(root: Path, damage: str) -> None:
    one = run(root)
    (file,) = kept(root)
    sound = file.stat().st_size
    DAMAGES[damage](file)
    done = run(root)
    assert (done.returncode, done.stdout) == (0, one.stdout)
    assert [each.stat().st_size for each in kept(root)] == [sound]


def test_nothing_is_kept_where_python_keeps_nothing(root: Path) -> None:
    for words, environment in ((["-B"], {}), ([], {"PYTHONDONTWRITEBYTECODE": "1"})):
        assert run(root, *words, **environment).returncode == 0
        assert not kept(root)
    (root / "away").mkdir()
    assert run(root, PYTHONPYCACHEPREFIX=str(root / "away")).returncode == 0
    assert [each.is_relative_to(root / "away") for each in kept(root)] == [True]


def test_where_nothing_can_be_written_it_runs_as_well(root: Path) -> None:
    one = run(root)
    for file in kept(root):
        file.unlink()
    no_access = run(root, before="os.access = lambda *_: False")
    assert (no_access.stdout, kept(root)) == (one.stdout, [])
    assert b"importlib.machinery" not in no_access.stderr
    # A folder of its name refuses to be replaced, whoever runs this.
    (root / "postrender/__pycache__" / f"{Path(start.path()).name}").mkdir()
    done = run(root)
    assert (done.returncode, done.stdout) == (0, one.stdout)
    assert len(kept(root)) == 1


# A disk may be full, a source may be edited meanwhile, a user may press Ctrl-C.
@pytest.mark.parametrize("error", ["EOFError", "SyntaxError", "KeyboardInterrupt", "FileNotFoundError"])
def test_what_fails_behind_the_stream_fails_no_install(root: Path, error: str) -> None:
    one, done = run(root, before=f"def fails(*_): raise {error}\nos.replace = os.remove = fails"), run(root)
    assert (one.returncode, one.stdout) == (0, done.stdout)
    assert b"Traceback" not in one.stderr


def test_nothing_stays_of_a_file_that_cannot_be_put_there(root: Path) -> None:
    assert run(root, before="def fails(*_): raise OSError\nos.replace = fails").returncode == 0
    assert kept(root) == []


@pytest.mark.parametrize("module", ["start", "filter"])
def test_a_module_of_it_is_a_program_too(root: Path, module: str) -> None:
    whole = run(root)
    done = subprocess.run(
        [sys.executable, "-m", f"postrender.{module}", *WORDS, "--no-gate"],
        check=True,
        input=STREAM,
        capture_output=True,
        cwd=root,
    )
    assert done.stdout == whole.stdout


def test_a_python_that_optimizes_keeps_its_own(root: Path) -> None:
    assert run(root).stdout == run(root, "-O").stdout == run(root, "-O").stdout
    assert len(kept(root)) == 2
