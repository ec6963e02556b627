"""Find the accelerator profile for a cloud's machine name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from postrender import paths, spelling
from postrender.errors import UsageError
from postrender.yaml import reader

# Azure's resource types begin with it; its pages leave it out.
_STANDARD = "standard"
# A shorter beginning means too much: g4, gd-8.
_SHORTEST = 4


@cache
def types() -> Mapping[str, str]:
    """Return the cloud's machine name for each profile, such as p5en.48xlarge."""
    files = {name: reader.load_values(paths.accelerator(name)).plain() for name in paths.accelerators()}
    return {name: str(values["accelerator"].get("machineType") or "") for name, values in files.items()}


def profile(word: str) -> str:
    """Return the profile that a word means: a profile's name, or the machine's name or a prefix of it, in any case.

    Raises UsageError if no profile or several profiles match.
    """
    if word in paths.accelerators():
        return word
    found = _of_type(word)
    if len(found) == 1:
        return found[0]
    raise UsageError(_refusal(word, found), fix=_fix(word, found))


def _of_type(word: str) -> list[str]:
    """Return the profiles with this name in another spelling, else those of machines with this name or prefix."""
    begin = _plain(word)
    if alike := [name for name in types() if spelling.plain(name) == begin and not _with_gpu(word)]:
        return alike
    whole = {name: (_plain(each), _plain(each.partition(".")[0])) for name, each in types().items() if each}
    if exact := [name for name, names in whole.items() if begin in names]:
        return exact
    if _with_gpu(word):
        return []
    return [name for name, (each, _) in whole.items() if len(begin) >= _SHORTEST and each.startswith(begin)]


def _plain(machine: str) -> str:
    return spelling.plain(machine).removeprefix(_STANDARD)


def _refusal(word: str, found: list[str]) -> str:
    if found:
        return f"{word!r} means several machines: {_listed(found)}"
    if with_gpu := _with_gpu(word):
        return f"{word!r} is a GPU, and these profiles have it: {_listed(with_gpu)}"
    return f"no accelerator profile is called {word!r}; the profiles are: {', '.join(paths.accelerators())}"


def _with_gpu(word: str) -> list[str]:
    """Return the profiles of the machines with a GPU; each cloud has its own profile."""
    return [name for name in types() if spelling.plain(word) in name.split("-")]


def _listed(names: list[str]) -> str:
    return ", ".join(f"{name} ({types()[name]})" for name in names)


def _fix(word: str, found: list[str]) -> str:
    if found or _with_gpu(word):
        return "choose the one of your cloud"
    meant = spelling.meant(word, paths.accelerators(), is_value=True)
    return f"did you mean {meant}?" if meant else "choose one of them, or give your own file with -f instead"
