"""Rules over the keys in job.config, the same for every framework: unknown keys, wrong types, dangling references.

No supported framework rejects every unknown key, so a misspelt key often goes unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo.problems.checks import quoted
from grpo.problems.keys import misplaced
from grpo.problems.sign import Sign, printed
from grpo.values.config import OVERRIDE
from grpo.values.derived import mapping
from grpo.values.reference_errors import (
    AboveRootError,
    CycleError,
    DanglingError,
    EscapedError,
    MalformedError,
    RefusedError,
    UnknownError,
    UnknownResolverError,
)
from grpo.values.references import BUILT_IN, ReferenceResolver
from postrender import spelling
from postrender.finding import WARNING, Finding, NewName
from postrender.problem import Fails
from postrender.secrets import names_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from grpo.problems.topic import Topic
    from grpo.values.catalogue import Catalogue
    from grpo.values.config import RunConfig
    from postrender.problem import Problem
    from postrender.types import Json

_PLACEHOLDER = "???"
# Packages whose names start like this may register resolvers.
_REGISTERING = ("hydra", "omegaconf")
# Trainers of verl that other base configurations than ppo_trainer select, by the key of their sections.
_OTHER_TRAINERS = {"megatron": "Megatron", "veomni": "VeOmni", "torchtitan": "TorchTitan", "automodel": "AutoModel"}
# What to write instead of a null that has another meaning in other versions.
_NULLS = {
    "policy.tokenizer.chat_template": "remove the key, or write default; before v0.7.0 null meant no chat format at all"
}
_SILENT = "the framework ignores it, and the run goes on with its default"


def rules(
    topic: Topic,
    source: str,
    *,
    why: str = _SILENT,
    why_of: Callable[[RunConfig, str], str] = lambda *_: "",
    refusals: tuple[Sign, ...] = (),
) -> tuple[Problem, ...]:
    """Return these rules for a framework; `source` is the file that reads its configuration.

    `why` belongs to unknown-key, because not every framework ignores an unknown key; `why_of` says which part of it
    applies to a key of a run. `refusals` are signs of the error for a key or a value that the framework refuses.
    """
    return (
        topic.make(
            "unknown-key",
            "",
            lambda run: (each._replace(why=each.why or why_of(run, *each.keys[:1])) for each in _unknown(run)),
            fails=Fails.SILENT,
            title="this version of the framework does not read a key of job.config",
            why=why,
            fix="correct the name or remove the key; checks.ignore keeps one that your own code reads",
            source=source,
            logs=printed("is not in struct") + refusals,
        ),
        topic.make(
            "wrong-type",
            "",
            _types,
            fails=Fails.AT_SETUP,
            title="a value of job.config has a wrong type, or is not one that the framework accepts",
            why='the framework refuses it where it first uses it; a string such as "no" counts as true',
            fix="write a value of the expected type",
            source=source,
            logs=refusals,
        ),
        topic.make(
            "dangling-reference",
            "",
            _references,
            fails=Fails.AT_SETUP,
            title="a ${...} of job.config cannot be resolved, or a ??? is left",
            why="the framework fails when it reads its configuration, or uses ??? as a string",
            fix="refer to an existing key, or write the value",
            source=source,
        ),
        topic.make(
            "section-not-judged",
            "",
            _sections,
            fails=Fails.SILENT,
            title="only the running job knows a section of job.config",
            why="nothing in the section is checked before the job runs",
            fix="write the section itself, or refer to one in the configuration",
            source=source,
            severity=WARNING,
        ),
    )


def _other_trainer(run: RunConfig, path: str) -> str:
    """Return the verl trainer that an unknown key is for; empty if it is for none."""
    sections = [] if run.framework != "verl" or run.catalogue.knows(path) else path.split(".")
    return next((_OTHER_TRAINERS[name] for name in sections if name in _OTHER_TRAINERS), "")


def _leaves(tree: Mapping[str, Any], catalogue: Catalogue, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the path and value of what the user set: leaves, maps that allow any key, and unknown maps."""
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if "." in key:
            # _dotted reports it.
            continue
        is_closed = catalogue.knows(here) and not catalogue.is_open(here)
        # Of an open section, the keys that are known have types too.
        is_section = (is_closed or here in catalogue.sections) and (value or here not in catalogue.keys)
        if isinstance(value, dict) and is_section:
            yield from _leaves(value, catalogue, here)
        else:
            yield here, value


def _dotted(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield keys whose names contain a dot, which no framework splits, with the section that contains them."""
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if "." in key:
            yield here, path
        elif isinstance(value, dict):
            yield from _dotted(value, here)


def _unknown(run: RunConfig) -> Iterator[Finding]:
    for path, section in _dotted(run.given):
        if not (section and run.catalogue.is_open(section)):
            fix = "write it as nested maps"
            name = path.removeprefix(f"{section}.") if section else path
            key = name.replace(".", "\\.")
            yield Finding(
                f"the key {name} has a dot in its name", keys=[f"{section}.{key}" if section else key], fix=fix
            )
    for path, _ in _leaves(run.given, run.catalogue):
        if other := _other_trainer(run, path):
            what = f"{path} belongs to verl's {other} trainer, which these charts do not offer"
            yield Finding(what, keys=[path], fix="remove it: the charts run verl with FSDP")
            continue
        if not run.catalogue.knows(path) and not run.derives(path):
            where = f"{run.framework} {run.version}"
            what = f"{path} is not a key that {where} reads"
            new = run.catalogue.moved.get(path)
            if new:
                yield Finding(what, keys=[path], fix=f"in {run.version} it is {new}")
                continue
            similar, meant = misplaced.meant(path, run)
            fix = f"did you mean {' or '.join(similar)}?" if similar else ""
            yield Finding(what, keys=[path], fix=fix, proposed={path: NewName(meant)} if meant else {})


def _lists(tree: Mapping[str, Any], base: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of maps given in place of lists: OmegaConf refuses to merge the two."""
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        below = base.get(key) if isinstance(base, dict) else None
        if isinstance(value, dict) and value.get(OVERRIDE) is not True:
            if isinstance(below, list):
                yield here
            else:
                yield from _lists(value, below, here)


def _types(run: RunConfig) -> Iterator[Finding]:
    for path in _lists(run.given, run.catalogue.base):
        fix = f"write the whole list; the default configuration of {run.framework} has one there"
        yield Finding(f"{path} is a map, expected a list", keys=[path], fix=fix)
    for path, given in _leaves(run.given, run.catalogue):
        try:
            value = run.at(path, given)
        except UnknownError:
            continue
        if value != _PLACEHOLDER and not run.catalogue.allows(path, value) and not _is_coerced(run, path, value):
            wanted = run.catalogue.type_of(path)
            words = str(wanted).replace("|", " or ")
            fix, meant = _NULLS.get(path, "") if value is None else "", ""
            if "list" in words.split(" or ") and isinstance(value, str | int | float):
                is_secret = names_secret(path.rpartition(".")[2])
                fix = f"write a list: [{'…' if is_secret else quoted(value)}]"
            if isinstance(wanted, list):
                words = f"one of {', '.join(map(quoted, wanted))}"
                known = [word for word in wanted if word]
                close = spelling.near(str(value), known)
                # A reference is no misspelling.
                meant = spelling.meant(str(value), known, is_value=True) if given == value else ""
                fix = f"did you mean {close[0]}?" if close else "write one of them"
            what = f"{path} is {_described(path, value)}, expected {words}"
            yield Finding(what, keys=[path], fix=fix, proposed={path: meant} if meant else {})


def _is_coerced(run: RunConfig, path: str, value: Json) -> bool:
    """Return whether the framework converts a value to the expected type: NeMo RL does, except for vLLM's section.

    It accepts 0 and 1 as booleans; from v0.7.0 on, its schema reads numbers from text. It also reads "no", but older
    versions treat that as true, so it remains a finding.
    """
    if run.framework != "nemo-rl" or path.startswith("policy.generation."):
        return False
    if value in (0, 1) and run.catalogue.allows(path, True):
        return True
    if not isinstance(value, str) or not run.since("v0.7.0"):
        return False
    try:
        return run.catalogue.allows(path, float(value))
    except (ValueError, OverflowError):
        return False


def _described(path: str, value: Json) -> str:
    if isinstance(value, str) and names_secret(path.rpartition(".")[2]):
        return "a text"
    if isinstance(value, (dict, list)):
        return "a map" if isinstance(value, dict) else "a list"
    return quoted(value)


def _references(run: RunConfig) -> Iterator[Finding]:
    resolver = _resolver(run)
    cycles: set[frozenset[str]] = set()
    for path, value in _leaves(run.given, run.catalogue):
        if value == _PLACEHOLDER:
            yield Finding(f"{path} is still ???", keys=[path], fix="write the value")
        for below, text in _texts(value, path):
            try:
                _check(run, resolver, below) if "${" in text else None
            except DanglingError as error:
                if run.is_broken(error.name.partition(".")[0]) and below != path.partition(".")[0]:
                    # Another finding says that the section is not a map.
                    continue
                if not _is_reported_elsewhere(run, below, error.place):
                    yield Finding(f"{below} refers to {error.name}, which does not exist", keys=[below, path])
            except CycleError as error:
                keys = frozenset(error.paths)
                if keys not in cycles and (below in keys or not any(map(run.given_has, keys))):
                    cycles.add(keys)
                    what = _cycle(below, error)
                    fix = "name a key of it" if error.section else "write the value at one of them"
                    yield Finding(what, keys=[below, path], fix=fix)
            except RefusedError as error:
                if not _is_reported_elsewhere(run, below, error.place):
                    yield _refused(run, below, path, error)
            except (UnknownError, KeyError):
                continue


def _check(run: RunConfig, resolver: ReferenceResolver, below: str) -> None:
    place = tuple(below.split("."))
    resolver.check(place)
    if run.framework == "verl":
        # verl resolves its configuration in place, and again for its trackers.
        resolver.check_again(place)


def _resolver(run: RunConfig) -> ReferenceResolver:
    """Return a resolver for the configuration, with the functions that the framework registers."""
    code = mapping(run.value("job.code"))
    if code.get("repository") or any(name.startswith(_REGISTERING) for name in mapping(code.get("packages"))):
        # The user's own code may register any function.
        return ReferenceResolver(run.config)
    if run.framework == "verl":
        more: tuple[str, ...] = ("hydra", "now", "python_version")
    else:
        more = ("mul", "div", "max") if run.since("v0.6.0") else ("mul",)
    return ReferenceResolver(run.config, (*BUILT_IN, *more))


def _is_reported_elsewhere(run: RunConfig, below: str, place: tuple[str, ...]) -> bool:
    """Return whether the mistake is in another text in the files, and is reported there."""
    at_ = ".".join(place)
    return at_ not in ("", below) and run.given_has(at_)


def _refused(run: RunConfig, below: str, path: str, error: RefusedError) -> Finding:
    """Return why the framework rejects a reference, showing only names, because its content may be a secret."""
    keys = [below, path]
    # verl resolves its configuration twice, so an escaped reference is a reference again the second time.
    plain = "" if run.framework == "verl" else "; \\${ is a plain text"
    if isinstance(error, AboveRootError):
        what = f"{below} refers to {error.name}, which is above the configuration"
        dots = f"{error.most} dot{'s lead' if error.most > 1 else ' leads'}"
        return Finding(what, keys=keys, fix=f"{dots} to its root; or write the full path, without leading dots")
    if isinstance(error, UnknownResolverError):
        known = f"{run.framework} {run.version}"
        fix = f"write the value, or ${{oc.env:NAME,default}} for a variable{plain}"
        return Finding(f"{below} calls {error.name}, which {known} does not register", keys=keys, fix=fix)
    if isinstance(error, MalformedError) and error.is_open:
        return Finding(f"{below} opens ${{ and does not close it", keys=keys, fix="write the }")
    if isinstance(error, EscapedError):
        what = f"{below} has a backslash before ${{, but {run.framework} resolves its configuration twice"
        return Finding(what, keys=keys, fix="write the text without ${")
    fix = f"write a key such as data.shuffle in the braces, or a call such as oc.env:NAME{plain}"
    return Finding(f"{below} has a ${{...}} that cannot be parsed", keys=keys, fix=fix)


def _cycle(below: str, error: CycleError) -> str:
    first = error.paths[0]
    if below not in error.paths:
        return f"{below} refers to {first}, which refers to {error.section or 'itself'}"
    if error.section:
        return f"{below} refers to {error.section}, the section that contains it"
    at_ = error.paths.index(below)
    others = [*error.paths[at_ + 1 :], *error.paths[:at_]]
    return f"{below} refers to itself{', through ' if others else ''}{' and '.join(others)}"


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yield a tree's texts with their paths, except below a key with a dot in its name."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if "." not in str(key):
                yield from _texts(each, f"{path}.{key}")


def _sections(run: RunConfig) -> Iterator[Finding]:
    for key in run.unknown_sections():
        try:
            _resolver(run).at((key,))
        except (RefusedError, DanglingError):
            # Another finding reports it.
            continue
        except UnknownError:
            pass
        what = f"{key} is {run.given[key]}, which only the running job knows: nothing in this section is checked"
        yield Finding(what, keys=[key])
