"""Where the charts, profiles and schemas are: next to the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Sequence

from postrender.errors import InstallationError, UsageError

# The order of installation; each layer is one chart and one Helm release with its own lifetime.
LAYERS = ("network", "storage", "raycluster", "grpo-job")

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_root() -> str:
    """Return the folder that contains charts/, values/, schemas/ and jobs/.

    Raises InstallationError if neither a checkout nor a wheel's data is present.
    """
    for root in (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE)):
        if os.path.isdir(os.path.join(root, "charts")):
            return root
    raise InstallationError(
        f"the charts are missing: expected {os.path.join(_PACKAGE, '_data', 'charts')}",
        fix="install grpo-charts again, or run from a checkout",
    )


def chart(layer: str) -> str:
    """Return the folder of a layer's chart; raise UsageError for an unknown layer."""
    if layer not in LAYERS:
        raise UsageError(f"there is no layer {layer!r}; the layers are {', '.join(LAYERS)}")
    return os.path.join(data_root(), "charts", layer)


def schema(layer: str) -> str:
    """Return the path of the values.schema.json in a layer's chart."""
    return os.path.join(chart(layer), "values.schema.json")


def defaults(layer: str) -> str:
    """Return the path of the values.yaml in a layer's chart."""
    return os.path.join(chart(layer), "values.yaml")


def accelerators() -> list[str]:
    """Return the accelerator profiles' names, sorted."""
    folder = os.path.join(data_root(), "values", "accelerators")
    if not os.path.isdir(folder):
        return []
    return sorted(name[: -len(".yaml")] for name in os.listdir(folder) if name.endswith(".yaml"))


def recipes() -> list[str]:
    """Return the recipes' paths, sorted; those below the working directory are relative to it."""
    folder = os.path.join(data_root(), "values", "recipes")
    found = (os.path.join(folder, name) for name in os.listdir(folder)) if os.path.isdir(folder) else ()
    return sorted(shown(path) for path in found if path.endswith(".yaml"))


def frameworks(framework: str) -> dict[str, str]:
    """Return the values files that switch a recipe to another version of its framework, by version."""
    folder = os.path.join(data_root(), "values", "frameworks")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    beginning = f"{framework}-"
    found = [name for name in names if name.startswith(beginning) and name.endswith(".yaml")]
    return {name[len(beginning) : -len(".yaml")]: shown(os.path.join(folder, name)) for name in found}


def editors_schema() -> str:
    """Return the path of the values file schema for editors."""
    return os.path.join(data_root(), "schemas", "values.schema.json")


def shown(path: str) -> str:
    """Return a path as commands show it: relative to the working directory if it is below it."""
    return path.removeprefix(os.getcwd() + os.sep)


def local(path: str) -> str:
    """Return a packaged file's copy in the working directory, if that is a checkout of the same version.

    A path in an installed package is valid only on this machine.
    """
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(data_root()))
    charts = [os.path.join("charts", layer, "Chart.yaml") for layer in LAYERS]
    same = is_packaged(path) and all(_is_same(each) for each in (below, *charts))
    return below if same else path


def _is_same(below: str) -> bool:
    """Return whether the working directory has an identical copy of a package file."""
    ours = os.path.join(data_root(), below)
    return os.path.isfile(below) and os.path.isfile(ours) and filecmp.cmp(below, ours, shallow=False)


def guide() -> str:
    """Return the path of the `grpo guide` template."""
    return os.path.join(data_root(), "docs", "tutorial.md.in")


def change_guide() -> str:
    """Return the path of the `grpo guide --change` template."""
    return os.path.join(data_root(), "docs", "change.md.in")


def example_site() -> str:
    """Return the path of the site file that users copy."""
    return os.path.join(data_root(), "values", "examples", "site.yaml")


def accelerator(name: str) -> str:
    """Return the path of an accelerator profile; raise UsageError if there is no profile with that name."""
    known = accelerators()
    if name not in known:
        listed = ", ".join(known) if known else "none are installed"
        raise UsageError(
            f"no accelerator profile is called {name!r}; the profiles are: {listed}",
            fix="choose one of them, or give your own file with -f instead",
        )
    return os.path.join(data_root(), "values", "accelerators", f"{name}.yaml")


def is_chart(path: str) -> bool:
    """Return whether a path is a chart's folder, or is named like a packaged chart."""
    return path.endswith((".tgz", ".tar.gz")) or os.path.isfile(os.path.join(path, "Chart.yaml"))


def charts_of(files: Sequence[str]) -> str:
    """Return the charts folder that belongs to values files: next to one of them in a copy, or else the package's."""
    root = data_root()
    for file in files:
        folder, values = os.path.split(os.path.dirname(os.path.dirname(os.path.abspath(file))))
        if values != "values" or os.path.realpath(folder) == os.path.realpath(root):
            continue
        charts = os.path.join(folder, "charts")
        if all(is_chart(os.path.join(charts, layer)) for layer in LAYERS):
            return charts if os.path.isabs(file) else os.path.relpath(charts)
    return os.path.join(root, "charts")


def siblings(path: str) -> list[str]:
    """Return the other layers' charts, next to the folder or package of one of our charts; empty for other charts."""
    folder, name = os.path.split(os.path.abspath(path))
    layer = next((each for each in LAYERS if name == each or name.startswith(f"{each}-")), None)
    if layer is None:
        return []
    found = [os.path.join(folder, f"{each}{name.removeprefix(layer)}") for each in LAYERS if each != layer]
    return found if all(map(is_chart, found)) and all(map(os.path.exists, found)) else []


def is_packaged(path: str) -> bool:
    """Return whether a values file comes with the package, so that an update replaces it."""
    return os.path.realpath(path).startswith(os.path.realpath(os.path.join(data_root(), "values")) + os.sep)


def in_package(path: str) -> str:
    """Return a package file's path relative to the package's data folder."""
    return os.path.relpath(os.path.abspath(path), data_root())


def own(files: Sequence[str]) -> list[str]:
    """Return the values files that a user edits: neither --set arguments nor the package's files."""
    return [file for file in files if not file.startswith("<") and not is_packaged(file)]
