"""The names that a reward of one's own uses exist."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from typing import TYPE_CHECKING, Final

from grpo.problems.rewards.values_own_code import TOPIC, files, parsed
from postrender.finding import Finding
from postrender.problem import Fails
from postrender.spelling import meant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

# A module or the body of a class has them without an assignment.
_GIVEN: Final = frozenset(dir(builtins)) | frozenset(
    ("__annotations__", "__builtins__", "__cached__", "__file__", "__module__", "__path__", "__qualname__")
)
# Names of Python 2 and of Windows, and how a file asks whether it has them.
_ELSEWHERE: Final = frozenset(
    ("WindowsError", "basestring", "cmp", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange")
)
_ASKS: Final = re.compile(r"\b(?:version_info|hexversion|python_version|PY[23]|platform|os\.name)\b")
# Each may make names that no assignment shows.
_MAKERS: Final = frozenset(("globals", "exec", "eval", "setattr", "vars", "locals", "__import__"))


@TOPIC.problem("=job.rewards", fails=Fails.AT_FIRST_STEP, source="Doc/reference/executionmodel.rst at v3.12.0")
def reward_name_undefined(run: RunConfig) -> Iterator[Finding]:
    """a reward uses a name that its file does not define

    Why: the reward raises NameError at the first response that gets to this line, or gives every such response 0
    Fix: correct the name, import it, or define it in the file
    """
    for name, text, _ in files(run):
        tree = parsed(text)
        for line, used, near in _undefined(text, tree) if tree else ():
            more = f": did you mean {near}?" if near else ""
            what = f"the file of reward {name}, line {line}: {used} is not defined{more}"
            yield Finding(what, keys=[f"=job.rewards.{name}.file"])


def _undefined(text: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and the name that is meant, of each global that nothing in the file makes."""
    nodes = [*ast.walk(tree)]
    loads = [each for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    makes = any(each.id in _MAKERS for each in loads)
    imports_all = any(isinstance(each, ast.alias) and each.name == "*" for each in nodes)
    # Whoever catches NameError asks whether the name exists.
    asks = any(isinstance(each, ast.Name) and each.id == "NameError" for each in nodes)
    if makes or imports_all or asks:
        return
    table = symtable.symtable(text, "reward", "exec")
    made = {each.get_name() for each in table.get_symbols() if _is_made(each)}
    every = [table]
    for each in every:
        every += each.get_children()
        made |= {one.get_name() for one in each.get_symbols() if one.is_declared_global() and _is_made(one)}
    missing = {
        one.get_name()
        for each in every
        for one in each.get_symbols()
        if one.is_referenced() and (one.is_global() or (each is table and not _is_made(one)))
    }
    missing -= made | _GIVEN | (_ELSEWHERE if _ASKS.search(text) else frozenset())
    for used in sorted(missing):
        line = min((each.lineno for each in loads if each.id == used), default=0)
        # An annotation may be a text or is not evaluated.
        if line and not _is_annotation(tree, used):
            yield line, used, meant(used, sorted(made), is_value=True) or ""


def _is_made(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _is_annotation(tree: ast.Module, used: str) -> bool:
    """Say whether a name stands in annotations alone."""
    noted = {id(each) for node in ast.walk(tree) for part in _notes(node) for each in ast.walk(part)}
    return all(id(each) in noted for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == used)


def _notes(node: ast.AST) -> list[ast.AST]:
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [each for each in found if isinstance(each, ast.AST)]
