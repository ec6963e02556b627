"""The user's own rewards and prompts: they load, and they accept what the run passes to them."""

from __future__ import annotations

import ast
import platform
import re
import string
import warnings
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import texts
from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

TOPIC: Final = Topic("job", framework="", source="")
# Ours, and verl's, which is taken where a file has no other one.
_FUNCTION: Final = "reward"
OF_VERL: Final = "compute_score"
# One line that ends like the name of a file, and has nothing of a program or a sentence.
_PYTHON: Final = re.compile(r"[^\n=()\[\]{}#;,'\"]+\.py")
_TEXT: Final = re.compile(r"[\w./\\~:@-]+\.(txt|md|j2|jinja|prompt)")
# A thousand terms, or as many elif: whoever follows them one by one comes to the end of Python's stack.
_DEEPEST: Final = 200
# They give a module a function without a definition.
_MAKERS: Final = ("globals", "exec", "setattr")
_GIVEN: Final = ("ground_truth", "response")
# verl/workers/reward_manager/naive.py:88 at v0.6.1: by name.
_OF_VERL: Final = ("data_source", "solution_str", "ground_truth", "extra_info")
_NAMED: Final = "${{oc.env:GRPO_PROMPTS}}/{}.txt"
_NAMES: Final = re.compile(r"\$\{oc\.env:GRPO_PROMPTS\}/([^\"]*?)(?:\.txt)?$")
# Processors that do not put the question into the prompt's braces.
_OTHER_PROCESSORS: Final = (
    *("multichoice_qa_processor", "nemo_gym_data_processor", "helpsteer3_data_processor"),
    *("sft_processor", "kd_data_processor"),
)


def files(run: RunConfig) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """Yield each file reward's name, text and entry."""
    for name, entry in mapping(run.value("job.rewards")).items():
        text = mapping(entry).get("file")
        if isinstance(text, str):
            yield name, text, mapping(entry)


def parsed(text: str) -> ast.Module | None:
    """Return a reward file's tree; None if it is too deep or has a syntax error, which another rule reports."""
    try:
        tree = _tree(text)
    except (SyntaxError, ValueError):
        return None
    return None if tree is None or _is_deep(tree) else tree


def is_too_deep(text: str) -> bool:
    """Return whether a reward file is nested more deeply than the rules look."""
    try:
        tree = _tree(text)
    except (SyntaxError, ValueError):
        return False
    return tree is None or _is_deep(tree)


def _tree(text: str) -> ast.Module | None:
    """Parse a file; return None if it is nested too deeply for Python itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (RecursionError, MemoryError):
        return None


def _is_deep(tree: ast.Module) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def takes_any(text: str) -> bool:
    """Return whether a reward file uses, or may use, verl's function, which gets the expected answer unconverted."""
    tree = parsed(text)
    if tree is None or _may_define(tree, _FUNCTION):
        return True
    function = reward_of(tree)
    return function is None or function.name == OF_VERL


def is_name(text: str) -> bool:
    """Return whether a reward file's text is only a file name, as when --set is used instead of --set-file."""
    return _PYTHON.fullmatch(text.strip()) is not None


def _named(key: str, text: str, what: str) -> Finding:
    """Report a file name where the file's content is expected."""
    name = text.strip()
    fix = f"use --set-file {key}={name}, which gives the content of the file"
    return Finding(f'{what} is "{name}", the name of a file, and the content is needed', keys=[f"={key}"], fix=fix)


def reward_of(tree: ast.Module) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return a reward file's function; None if no top-level definition is it, or if another one may replace it."""
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    of_verl = None if _may_define(tree, _FUNCTION) else found.get(OF_VERL)
    return found.get(_FUNCTION, of_verl)


@TOPIC.problem("=job.rewards", fails=Fails.AT_RENDER, source="charts/grpo-job/templates/_rewards.tpl at 0.1.0")
def reward_source(run: RunConfig) -> Iterator[Finding]:
    """a reward does not have exactly one of builtin and file, or the version does not support rewards

    Fix: set exactly one of builtin (exact_answer, format or length) and file
    """
    rewards = {name: entry for name, entry in mapping(run.value("job.rewards")).items() if entry is not None}
    if rewards and run.version == "v0.4.0":
        what = "job.rewards is set, and NeMo RL v0.4.0 has no registry for rewards"
        yield Finding(what, fix="remove it, or use v0.5.0 or newer")
    for name, entry in rewards.items():
        given = [key for key in ("builtin", "file") if mapping(entry).get(key) is not None]
        if len(given) != 1:
            what = (
                f"job.rewards.{name}: {'both builtin and file are' if given else 'neither builtin nor file is'} given"
            )
            fix = "" if given else f"write builtin: exact_answer, or give --set-file job.rewards.{name}.file=FILE"
            yield Finding(what, keys=[f"=job.rewards.{name}"], fix=fix)


@TOPIC.problem("=job.prompts", fails=Fails.AT_RENDER, source="charts/grpo-job/templates/_rewards.tpl at 0.1.0")
def prompt_absent(run: RunConfig) -> Iterator[Finding]:
    """the configuration names a prompt that job.prompts does not have

    Fix: add its text under job.prompts, or name another prompt
    """
    has = sorted(name for name, text in mapping(run.value("job.prompts")).items() if text is not None)
    trains = run.framework == "nemo-rl" and run.trains
    for path, text in texts(run.given) if trains else ():
        found = _NAMES.match(text)
        if found and found[1] not in has:
            what = f"job.prompts has {', '.join(has) or 'no prompt'}, and {path} names {found[1]}.txt"
            yield Finding(what, keys=[path])


@TOPIC.problem("=job.rewards", fails=Fails.AT_SETUP, source="jobs/rewards/rewards.py at 0.1.0")
def reward_does_not_compile(run: RunConfig) -> Iterator[Finding]:
    """a reward file is not valid Python

    Why: the driver loads every reward before training, so the run fails after every pod has started
    Fix: correct the reported line of the file
    """
    for name, text, _ in files(run):
        if is_name(text):
            # The rule about the function says so.
            continue
        try:
            _tree(text)
        except SyntaxError as error:
            python = ".".join(platform.python_version_tuple()[:2])
            what = f"the file of reward {name} does not compile with Python {python}: line {error.lineno}: {error.msg}"
            yield Finding(what, keys=[f"=job.rewards.{name}.file"])
        except ValueError as error:
            yield Finding(f"the file of reward {name} does not compile: {error}", keys=[f"=job.rewards.{name}.file"])


@TOPIC.problem("=job.rewards", fails=Fails.AT_SETUP, source="jobs/rewards/rewards.py at 0.1.0")
def reward_function(run: RunConfig) -> Iterator[Finding]:
    """the reward file defines no reward() or compute_score() that accepts the arguments it is called with

    Why: the driver loads every reward before training, so the run fails after every pod has started
    Fix: define reward(ground_truth, response, **kwargs) returning (score, correct), or verl's compute_score
    """
    for name, text, entry in files(run):
        if is_name(text):
            yield _named(f"job.rewards.{name}.file", text, f"the file of reward {name}")
            continue
        tree = parsed(text)
        if tree is None:
            continue
        function = reward_of(tree)
        if function is not None:
            judge = _wrong_score if function.name == OF_VERL else _wrong_signature
            what = judge(function, mapping(entry.get("kwargs")))
        else:
            makes = any(isinstance(node, ast.Name) and node.id in _MAKERS for node in ast.walk(tree))
            may = makes or any(_may_define(tree, name) for name in (_FUNCTION, OF_VERL))
            what = "" if may else "defines no function reward"
        if what:
            yield Finding(f"the file of reward {name} {what}", keys=[f"=job.rewards.{name}.file"])


def _may_define(tree: ast.Module, function: str) -> bool:
    """Return whether a file may get a function in another way than by a top-level definition."""
    for node in _of_module(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name == function:
                return True
            case ast.Name(id=name) if name in _MAKERS:
                return True
            case ast.alias(name=name, asname=other) if (other or name) in (function, "*"):
                return True
            case ast.FunctionDef(name=name) if name == function and node.col_offset:
                return True
    return any(isinstance(node, ast.Global) and function in node.names for node in ast.walk(tree))


def _of_module(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module's nodes without those inside its functions and classes, whose names are local."""
    todo: list[ast.AST] = [*tree.body]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def _wrong_signature(function: ast.FunctionDef | ast.AsyncFunctionDef, kwargs: Mapping[str, Json]) -> str:
    """Return why a reward cannot be called with two texts and its kwargs; an empty text if it can be."""
    if isinstance(function, ast.AsyncFunctionDef):
        return "defines reward as async, and it is called without await"
    if function.decorator_list:
        return ""
    args = function.args
    places = [each.arg for each in (*args.posonlyargs, *args.args)]
    if len(places) < len(_GIVEN) and not args.vararg:
        return f"defines reward({', '.join(places)}), and it gets ground_truth and response"
    optional = {*places[len(places) - len(args.defaults) :], *places[: len(_GIVEN)]}
    named = {each.arg: default for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)}
    optional |= {name for name, default in named.items() if default is not None}
    missing = [name for name in (*places, *named) if name not in optional and name not in kwargs]
    if missing:
        return f"defines reward with the argument {missing[0]}, which has no default and is not in kwargs"
    free = {each.arg for each in args.args}.difference(places[: len(_GIVEN)]).union(named)
    extra = [name for name in kwargs if name not in free]
    return f"defines reward without the argument {extra[0]}, which kwargs gives" if extra and not args.kwarg else ""


def _wrong_score(function: ast.FunctionDef | ast.AsyncFunctionDef, kwargs: Mapping[str, Json]) -> str:
    """Return why verl's function cannot be called with one response by keyword; an empty text if it can be."""
    if isinstance(function, ast.AsyncFunctionDef):
        return f"defines {OF_VERL} as async, and it is called without await"
    replaced = [name for name in _OF_VERL[1:3] if name in kwargs]
    if replaced:
        return f"defines {OF_VERL}, and kwargs gives {replaced[0]}, which comes from the run"
    if function.decorator_list:
        return ""
    args = function.args
    named = [each.arg for each in (*args.args, *args.kwonlyargs)]
    if "solution_strs" in named:
        return f"defines {OF_VERL} for a batch (solution_strs), and it gets one solution_str"
    defaults = len(args.defaults)
    optional = {each.arg for each in args.args[len(args.args) - defaults :]}
    optional |= {each.arg for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default}
    missing = [name for name in named if name not in optional and name not in (*_OF_VERL, *kwargs)]
    if missing:
        return f"defines {OF_VERL} with the argument {missing[0]}, which has no default and is not in kwargs"
    extra = [name for name in (*_OF_VERL, *kwargs) if name not in named]
    return f"defines {OF_VERL} without the argument {extra[0]}, which it gets" if extra and not args.kwarg else ""


@TOPIC.problem("=job.prompts", fails=Fails.AT_FIRST_STEP, source="nemo_rl/data/processors.py:404 at v0.7.0")
def prompt_without_question(run: RunConfig) -> Iterator[Finding]:
    """a prompt of job.prompts does not have exactly one placeholder {} for the question

    Why: the model never sees the question, and the reward stays near 0; other braces fail at the first batch
    Fix: write {} where the question belongs, and double all other braces: {{ }}
    """
    if run.framework != "nemo-rl":
        return
    for name, text in mapping(run.value("job.prompts")).items():
        if isinstance(text, str) and _TEXT.fullmatch(text.strip()):
            yield _named(f"job.prompts.{name}", text, f"the prompt {name}")
        elif isinstance(text, str) and _is_question_prompt(run, name):
            what = _wrong_places(text)
            if what:
                yield Finding(f"the prompt {name} {what}", keys=[f"=job.prompts.{name}"])


def _is_question_prompt(run: RunConfig, name: str) -> bool:
    """Return whether a data set uses a prompt for its questions; a system prompt contains no question."""
    used = [section for _, section in data_sections(run) if section.get("prompt_file") == _NAMED.format(name)]
    return any(section.get("processor") not in _OTHER_PROCESSORS for section in used)


def _wrong_places(text: str) -> str:
    try:
        places = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        return f"cannot be filled in: {str(error)[:1].lower()}{str(error)[1:]}"
    if not places:
        return "has no place for the question"
    others = [place for place in places if place not in ("", "0")]
    if others:
        return f"has a place {{{others[0]}}}, and only {{}} is filled in"
    return "has several {}, and only one question is filled in" if places.count("") > 1 else ""


@TOPIC.problem("=job.prompts", fails=Fails.SILENT, source="nemo_rl/data/interfaces.py:71 at v0.7.0", severity=WARNING)
def prompt_not_used(run: RunConfig) -> Iterator[Finding]:
    """the configuration does not use a prompt defined in job.prompts

    Why: the prompt is written to the run's volume, but the model gets a different one
    Fix: set job.config.data.default.prompt_file to ${oc.env:GRPO_PROMPTS}/NAME.txt
    """
    if run.framework != "nemo-rl" or not run.trains:
        return
    named = [text for _, text in texts(run.given)]
    for name, text in mapping(run.value("job.prompts")).items():
        if text is not None and not any("GRPO_PROMPTS" in each and f"/{name}.txt" in each for each in named):
            yield Finding(f"no key of job.config names the prompt {name}", keys=[f"=job.prompts.{name}"])
