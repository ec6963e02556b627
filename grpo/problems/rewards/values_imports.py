"""The packages that a reward of one's own imports are in the image, or in job.code.packages."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from grpo.problems.rewards.values_own_code import TOPIC, files, parsed
from grpo.values import images
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

# Packages of rewards that no published image of the framework has, by the name that is imported. verl: setup.py has
# math-verify only as the extra `math`, and docker/Dockerfile.stable.* installs none, at v0.6.1, v0.7.1, v0.8.0 and
# v0.9.0. NeMo RL: none of them is in uv.lock at v0.4.0, v0.5.0, v0.6.0 and v0.7.0.
_ABSENT: Final = {
    "verl": {"math_verify": "math-verify", "latex2sympy2_extended": "latex2sympy2-extended"},
    "nemo-rl": {
        **{name: name for name in ("mathruler", "pylatexenc", "word2number", "jieba", "rapidfuzz", "sacrebleu")},
        **{"evaluate": "evaluate", "latex2sympy2": "latex2sympy2", "Levenshtein": "levenshtein"},
        "bert_score": "bert-score",
    },
}
# job.code.packages are installed without what they need: math-verify 0.9.0 pins latex2sympy2_extended 1.11.0, whose
# sympy and antlr4 come with torch and Hydra.
_NEEDS: Final = {"math-verify": "latex2sympy2-extended"}
_TRIED: Final = {"math-verify": "0.9.0", "latex2sympy2-extended": "1.11.0"}
_NAME: Final = {"nemo-rl": "NeMo RL", "verl": "verl"}
# A file that finds or installs modules itself.
_EXTENDS: Final = re.compile(r"\bsys\.path\b|\baddsitedir\b|['\"]pip\b")
_SOURCES: Final = "setup.py:54 at v0.9.0"


@TOPIC.problem("=job.rewards =job.code.packages", fails=Fails.AT_SETUP, source=_SOURCES)
def reward_import_absent(run: RunConfig) -> Iterator[Finding]:
    """the file of a reward imports a package that the image does not have

    Why: the driver loads every reward before it trains: the run fails when every pod has started
    Fix: add it to job.code.packages with a version, and what it needs: they are installed without their dependencies
    """
    yield from _absent(run, certain=True)


@TOPIC.problem("=job.rewards =job.code.packages", fails=Fails.AT_SETUP, source=_SOURCES, severity=WARNING)
def reward_import_doubtful(run: RunConfig) -> Iterator[Finding]:
    """the file of a reward imports a package that the image may not have

    Why: if it is not there, the run fails when it loads the reward, or every response gets reward 0
    Fix: add it to job.code.packages with a version and what it needs, or to your image; if it is there, ignore this
    """
    yield from _absent(run, certain=False)


def _absent(run: RunConfig, *, certain: bool) -> Iterator[Finding]:
    known, given = _ABSENT.get(run.framework, {}), _packages(run)
    repository, tag = run.value("images.training.repository"), run.value("images.training.tag")
    is_copy = images.is_copy(repository, tag)
    if not run.trains or not (is_copy or images.named_after(repository) == run.framework):
        return
    base = "" if is_copy else ", on which yours may be built,"
    where = f"the public images of {_NAME.get(run.framework, run.framework)}{base} do not have it"
    for name, text, _ in files(run):
        tree = parsed(text)
        loaded, all_of_them = (_imported(tree, certain=True), _imported(tree, certain=False)) if tree else ([], [])
        is_known = is_copy and not _finds_more(run, text)
        for module in all_of_them:
            if certain != (is_known and module in loaded):
                continue
            package = known.get(module)
            missing = [each for each in (package, _NEEDS.get(package or "")) if each and each not in given]
            if not package or not missing:
                continue
            # The one whose own dependency alone is absent is installed without it.
            what = f"the file of reward {name} imports {module}"
            what += f", which needs {missing[0]}" if package in given else ""
            versions = ", ".join(f"{each}: {_TRIED.get(each, 'VERSION')}" for each in missing)
            fix = f"write job.code.packages: {{{versions}}}"
            yield Finding(f"{what}, and {where}", keys=[f"=job.rewards.{name}.file"], fix=fix)


def _finds_more(run: RunConfig, text: str) -> bool:
    """Return whether a reward file may find modules of the user's that are not in the image."""
    runtime = mapping(run.value("job.runtimeEnv"))
    path = run.variable("PYTHONPATH") or mapping(runtime.get("env_vars")).get("PYTHONPATH")
    return bool(path or runtime.keys() - {"env_vars"} or run.value("job.code.repository") or _EXTENDS.search(text))


def _packages(run: RunConfig) -> set[str]:
    """Return the packages that the run brings itself, with normal names."""
    given = {_normal(name) for name, version in mapping(run.value("job.code.packages")).items() if version is not None}
    texts = re.findall(r"[A-Za-z][\w.-]*", str(run.value("job.runtimeEnv")))
    return given | {_normal(each) for each in texts}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported(tree: ast.Module, *, certain: bool) -> list[str]:
    """Return the modules that a file imports when it is loaded, or with `certain` off also when it is called."""
    found, todo = list[str](), [*tree.body]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Import):
            found += [each.name.partition(".")[0] for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module.partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not certain:
            todo += node.body
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With) and not certain:
            todo += [*node.body, *getattr(node, "orelse", [])]
    return list(dict.fromkeys(found))
