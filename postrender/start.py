"""Start the post-renderer with the code of its modules from one file.

Python looks for every module, opens it and reads it by itself, which takes longer than to wire a small stream. So what
it has read is put together once, beside what it keeps itself (`__pycache__`), and holds until a source changes. Where
there is no such file, and none can be written, the modules are imported as always.
"""

from __future__ import annotations

import gc
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType
    from typing import Any, NoReturn

# What wires a small stream, each module behind those that it imports.
MODULES = (
    "precomputed",
    "errors",
    "yamlfast",
    "stream",
    "textio",
    "overlays",
    "stackvalues",
    "pods",
    "quoted",
    "tokens",
    "wiring",
    "transforms",
    "wire",
    "splice",
    "dealing",
    "rewrite",
    "filter",
)
_PACKAGE = "postrender"
_FOLDER = os.path.dirname(__file__)


def path() -> str:
    """Return where the code is kept; empty where Python keeps none of this module either."""
    return f"{__spec__.cached}.all" if __spec__ and __spec__.cached else ""


def _head() -> bytes:
    """Return what the code is kept for: this Python, and the sources by time and size, as Python itself tells them.

    Raises OSError where a source is gone.
    """
    sources = [os.stat(f"{_FOLDER}/{name}.py") for name in MODULES]
    return repr((sys.version, _FOLDER, [(int(each.st_mtime), each.st_size) for each in sources])).encode()


def _kept() -> list[CodeType]:
    """Return the code of MODULES; nothing where none is kept, or for other sources, or the file was cut off.

    What else could have happened to it is not looked for, as little as Python does for its own files.
    """
    try:
        head = _head()
        with open(path(), "rb", buffering=0) as file:
            fits = file.read(len(head)) == head
            codes: list[CodeType] = marshal.loads(file.readall()) if fits else []  # noqa: S302 (as Python's own files)
    except (OSError, MemoryError, EOFError, SystemError, TypeError, ValueError):
        return []
    return codes


def _load(codes: Sequence[CodeType]) -> None:
    """Make the modules, as `import` does."""
    package = sys.modules[_PACKAGE]
    # Its classes, as to import them from `importlib` takes as long as all of this.
    spec: Any = __spec__
    for name, code in zip(MODULES, codes, strict=True):
        whole, source = f"{_PACKAGE}.{name}", f"{_FOLDER}/{name}.py"
        module = sys.modules[whole] = type(package)(whole)
        loader = type(spec.loader)(whole, source)
        module.__spec__ = type(spec)(whole, loader, origin=source)
        module.__file__, module.__loader__, module.__package__ = source, loader, _PACKAGE
        exec(code, vars(module))  # noqa: S102 (what Python has compiled of the modules)
        setattr(package, name, module)


def _keep() -> None:
    """Put the code of MODULES together, if Python keeps any; raise OSError and others where that cannot be."""
    # To put it together takes time, of no use where it cannot be written.
    if not path() or sys.dont_write_bytecode or not os.access(os.path.dirname(path()), os.W_OK):
        return
    from importlib.machinery import SourceFileLoader

    loaders = [SourceFileLoader(f"{_PACKAGE}.{name}", f"{_FOLDER}/{name}.py") for name in MODULES]
    data = _head() + marshal.dumps([each.get_code(each.name) for each in loaders])
    own = f"{path()}.{os.getpid()}"
    try:
        with open(own, "xb") as file:
            file.write(data)
        os.replace(own, path())
    finally:
        if os.path.exists(own):
            os.remove(own)


def post_render() -> NoReturn:
    """Run `grpo-post-render`, and end at once: what Python does at its end takes longer than a small stream.

    Raises ImportError where a module is missing.
    """
    # This program ends soon, and makes nothing that only the collector could free.
    gc.disable()
    codes = _kept()
    if codes:
        _load(codes)
    from postrender.errors import EXIT_CANNOT_RUN
    from postrender.filter import main

    try:
        code = main()
        for each in (sys.stdout, sys.stderr):
            if each is not None:
                each.flush()
    except OSError:
        code = EXIT_CANNOT_RUN
    try:
        if not codes:
            _keep()
    finally:
        # The stream is passed on, and whatever happens now must not fail an install.
        os._exit(code)


if __name__ == "__main__":
    post_render()
