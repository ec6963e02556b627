"""Package the charts into a folder: `python -m postrender.docs.package dist`, a part of `make dist`."""

from __future__ import annotations

import sys
from pathlib import Path

from postrender import paths
from postrender.helm import Embedded


def package(destination: Path) -> list[Path]:
    """Write one .tgz for each layer's chart and return their paths; the library chart travels inside each."""
    destination.mkdir(parents=True, exist_ok=True)
    with Embedded() as engine:
        return [Path(engine.package(paths.chart(layer), str(destination.resolve()))) for layer in paths.LAYERS]


def main() -> int:
    """Package into the folder that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python -m postrender.docs.package FOLDER", file=sys.stderr)
        return 2
    for archive in package(Path(sys.argv[1])):
        print(archive.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
