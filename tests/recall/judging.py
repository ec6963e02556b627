"""Ask a judge about many configurations in one process. A program of its own: it runs what it is given, in children.

judging.py JUDGE TREE < {"name": {"file": …, "environment": {…}, "arguments": […]}, …} prints one line of JSON a name:
{"name": …, "code": exit code, "error": class, "where": "file:line" of the tree that refused, "said": …, "keys": […]}.

JUDGE is a program with a main() that loads one configuration with the code of a source tree and ends with an exit code.
Its start costs seconds, because it imports the framework: here that happens once, and each configuration gets a fork.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

# What a judge may use as it is, where this Python has it; everything else of a framework is replaced.
REAL = ("numpy", "torch")
CRASHED = 99


def load(path: Path) -> ModuleType:
    """Import the judge from its file."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("judge", path)
    assert spec, f"{path} is no Python program"
    assert spec.loader, f"{path} is no Python program"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def warm_nemo_rl(judge: ModuleType, tree: Path) -> list[str]:
    """Import NeMo RL once; with PyTorch at hand its batches are sharded by its own code. Return options."""
    loader = judge.N
    real = {name for name in REAL if importlib.util.find_spec(name)}
    real = real if len(real) == len(REAL) else set()
    names = loader.third_party_imports(tree)
    loader.third_party_imports = lambda _: names - real
    loader.prepare(tree, bool(names))
    if real:
        # The one part of PyTorch that asks for a package more.
        sys.modules["torch.utils.tensorboard"] = loader._StubModule("torch.utils.tensorboard")
    loader.prepare = lambda *_: None
    for module in ("algorithms.grpo", "models.policy.lm_policy", "models.generation"):
        importlib.import_module(f"nemo_rl.{module}")
    # It would start to read data, as its loaders do, which the judge replaces as well.
    sys.modules["nemo_rl.algorithms.grpo"].__dict__["MultipleDataloaderWrapper"] = judge.Inert
    print(f"real: the tree and {', '.join(sorted(real)) or 'nothing else'}", file=sys.stderr)
    return [] if real else ["--stub"]


def warm_verl(judge: ModuleType, tree: Path) -> list[str]:
    """Import verl and Hydra once. Return options."""
    hydra = importlib.import_module("hydra")
    with hydra.initialize_config_dir(config_dir=str(tree / "verl/trainer/config"), version_base=None):
        defaults = hydra.compose("ppo_trainer")
    compose = hydra.compose
    # The judge composes the defaults again each time, to compare with.
    hydra.compose = lambda name, overrides=(): compose(name, overrides=list(overrides)) if overrides else defaults
    validator = judge.load_validator(tree)
    judge.load_validator = lambda _: validator
    return ["--level", "build"]


def innermost(error: BaseException | None, tree: Path) -> tuple[str, str]:
    """Return the class of the first error of a chain, and the last line of the tree on the way to it."""
    where = ""
    while error is not None:
        step = error.__traceback__
        while step:
            file = step.tb_frame.f_code.co_filename
            if file.startswith(f"{tree}/"):
                where = f"{file.removeprefix(f'{tree}/')}:{step.tb_lineno}"
            step = step.tb_next
        inner = error.__cause__ or error.__context__
        if inner is None:
            return type(error).__name__, where
        error = inner
    return "", where


def refused_keys(error: BaseException | None) -> list[str]:
    """Return the keys that a schema refused, where one did."""
    found = getattr(error, "errors", None)
    return [".".join(map(str, one["loc"])) for one in found()] if callable(found) else []


def ask_one(judge: ModuleType, words: list[str], tree: Path) -> dict[str, Any]:
    """Run the judge on one configuration, in this process."""
    said, sys.argv = io.StringIO(), ["judge", *words]
    code, cause = 0, None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            judge.main()
        except SystemExit as end:
            code, cause = end.code if isinstance(end.code, int) else 0, end.__context__
        except BaseException as error:
            code, cause = CRASHED, error
    kind, where = innermost(cause, tree)
    last = said.getvalue().strip().splitlines()[-8:]
    return {"code": code, "error": kind, "where": where, "said": "\n".join(last), "keys": refused_keys(cause)}


def in_a_child(judge: ModuleType, words: list[str], tree: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Run the judge in a fork, which leaves nothing behind in this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.environ.update(environment)
        with os.fdopen(writing, "w") as answers:
            json.dump(ask_one(judge, words, tree), answers)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        text = answers.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text) if text else {"code": CRASHED, "error": "no answer"}
    return found


def main(program: str, source: str) -> None:
    """Judge what stands on stdin."""
    tree, output = Path(source).resolve(), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the tree prints must not stand among the answers
    judge = load(Path(program))
    nemo_rl = (tree / "nemo_rl").is_dir()
    options = (warm_nemo_rl if nemo_rl else warm_verl)(judge, tree)
    for name, asked in json.load(sys.stdin).items():
        file = [asked["file"]] if nemo_rl else ["--config", asked["file"]]
        words = [str(tree), *file, *options, *asked["arguments"]]
        print(
            json.dumps({"name": name, **in_a_child(judge, words, tree, asked["environment"])}), file=output, flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
