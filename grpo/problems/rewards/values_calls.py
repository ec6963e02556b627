"""The call of a user's reward: the order of its arguments, and what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from grpo.problems.rewards.values_own_code import OF_VERL, TOPIC, files, parsed, reward_of
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpo.values.config import RunConfig

# What people call the two texts, in TRL, in verl and in their own code.
_ANSWERS: Final = frozenset(("response", "responses", "completion", "solution_str", "prediction", "output", "answer"))
_TRUTHS: Final = frozenset(("ground_truth", "truth", "label", "reference", "expected", "target", "gold"))
_NUMBERS: Final = ("float", "int", "bool", "len")


def _functions(run: RunConfig) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield name and function of each reward that is a file, except functions that a decorator may change."""
    for name, text, _ in files(run):
        tree = parsed(text)
        function = reward_of(tree) if tree else None
        if isinstance(function, ast.FunctionDef) and not function.decorator_list:
            yield name, function


@TOPIC.problem("=job.rewards", fails=Fails.SILENT, source="jobs/rewards/rewards.py at 0.1.0")
def reward_arguments_swapped(run: RunConfig) -> Iterator[Finding]:
    """a reward function takes the response first and the expected answer second

    Why: the two arguments are positional, so the reward judges the expected answer instead of the response
    Fix: write def reward(ground_truth, response, **kwargs)
    """
    for name, function in _functions(run):
        if function.name == OF_VERL:
            # It is called by the names.
            continue
        first, second, *_ = [*(each.arg for each in (*function.args.posonlyargs, *function.args.args)), "", ""]
        if first in _ANSWERS and second in _TRUTHS:
            what = f"the file of reward {name} defines reward({first}, {second}), and it gets ground_truth and response"
            yield Finding(what, keys=[f"=job.rewards.{name}.file"])


@TOPIC.problem("=job.rewards", fails=Fails.SILENT, source="jobs/rewards/rewards.py at 0.1.0")
def reward_not_a_pair(run: RunConfig) -> Iterator[Finding]:
    """a reward function returns a result of the wrong form

    Why: such a result scores 0.0 and counts as incorrect, for every response, until the end of the run
    Fix: return score, correct (True, False, or None if the reward does not judge that); compute_score: return score
    """
    for name, function in _functions(run):
        is_of_verl = function.name == OF_VERL
        wrong = _wrong_result(function, _may_be_score if is_of_verl else _may_be_pair)
        if wrong:
            expected = "a number or a dictionary with score" if is_of_verl else "a pair (score, correct)"
            what = f"the function of reward {name} {wrong}, and {expected} is expected"
            yield Finding(what, keys=[f"=job.rewards.{name}.file"])


def _wrong_result(function: ast.FunctionDef, may_be: Callable[[ast.expr | None], bool]) -> str:
    """Return why a function's results are not what is expected; an empty text if they may be."""
    nodes = [*_own(function)]
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return "is a generator"
    results = [value for node in nodes if isinstance(node, ast.Return) for value in _results(node.value)]
    if not results:
        return "" if any(isinstance(node, ast.Raise) for node in nodes) else "returns nothing"
    single = [value for value in results if not may_be(value)]
    # A score of 0 beside pairs does no harm: it counts as 0.0 and not correct.
    harmful = single if len(single) == len(results) else [value for value in single if not _is_nothing(value)]
    if harmful:
        return f"returns {ast.unparse(harmful[0]) if harmful[0] else 'None'}"[:80]
    if may_be is _may_be_score:
        return ""
    annotation = function.returns.id if isinstance(function.returns, ast.Name) else ""
    is_known = any(isinstance(value, ast.Tuple) for value in results)
    return f"is declared to return {annotation}" if annotation in _NUMBERS and not is_known else ""


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a function's nodes without those of the functions nested in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own(child)


def _results(value: ast.expr | None) -> Iterator[ast.expr | None]:
    """Yield the values to which a returned expression can evaluate."""
    if isinstance(value, ast.IfExp):
        yield from (*_results(value.body), *_results(value.orelse))
    else:
        yield value


def _may_be_pair(value: ast.expr | None) -> bool:
    """Return whether an expression may give two values; false only if it certainly cannot."""
    match value:
        case None | ast.Constant(value=None | bool() | int() | float()):
            return False
        case ast.Compare() | ast.UnaryOp():
            return False
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return len(parts) == 2 or any(isinstance(part, ast.Starred) for part in parts)
        case ast.Call(func=ast.Name(id=name)):
            return name not in _NUMBERS
        case ast.BinOp(left=left, right=right):
            return _may_be_pair(left) or _may_be_pair(right)
    return True


def _may_be_score(value: ast.expr | None) -> bool:
    """Return whether verl's function may return an expression; false only if it certainly cannot."""
    match value:
        case None | ast.Constant(value=None | str()) | ast.Tuple() | ast.List() | ast.Set() | ast.JoinedStr():
            return False
        case ast.Dict(keys=keys):
            # Without a key, another dictionary is unpacked there.
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            return None in names or "score" in names
    return True


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)
