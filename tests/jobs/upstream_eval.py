"""Run the real examples/run_eval.py of a NeMo RL tree up to its first use of Ray: upstream_eval.py TREE [WORD …].

Everything that it imports is replaced by something inert, but for OmegaConf and NeMo RL's own reader of configurations.
Then the tree's own function prints a result.
"""

import ast
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any

REAL = ("omegaconf", "yaml", "antlr4", "nemo_rl.utils.config")
# OmegaConf asks for these, and goes without.
ABSENT = ("attr", "attrs", "pydevd_plugins", "numpy")


class Inert(type):
    """A type of which every attribute is inert again."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing


class Thing(metaclass=Inert):
    """Stands for whatever is imported."""


class MasterConfig:
    """Shows its sections as a pydantic model does, from which v0.7.0's is made."""

    def __init__(self, **sections: Any) -> None:
        self.__dict__.update(sections)

    def __repr__(self) -> str:
        return f"MasterConfig({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


def leave() -> None:
    raise SystemExit(0)


class Module(types.ModuleType):
    """An inert module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return {"init_ray": leave, "MasterConfig": MasterConfig}.get(name, Thing)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an inert module for each name that is not real."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if name in REAL or top in REAL or top in ABSENT or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        module = Module(spec.name)
        module.__path__ = [str(self.tree.joinpath(*spec.name.split(".")))]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def print_result(tree: Path) -> None:
    """Let the tree's own function print a result that is made up."""
    source = (tree / "nemo_rl/evals/eval.py").read_text(encoding="utf-8")
    names = ("_print_results",)
    found = [part for part in ast.parse(source).body if isinstance(part, ast.FunctionDef) and part.name in names]
    space: dict[str, Any] = {"os": os}
    exec(compile(ast.Module(found, []), "eval.py", "exec"), space)  # noqa: S102 - the tree is what is tested
    generation = {"model_name": "/hf/step_30", "temperature": 0.6, "top_p": 1.0, "top_k": -1}
    generation["vllm_cfg"] = {"max_model_len": 32768}
    sections = {"data": {"dataset_name": "math500"}, "eval": {"seed": 42}, "generation": generation}
    config = type("Config", (dict,), {"__getattr__": dict.__getitem__})(sections)
    space["_print_results"](config, generation, 447.4375, 500, "pass@k", 1, 16)


def main(tree: Path, words: list[str]) -> None:
    sys.meta_path.insert(0, Finder(tree))
    os.chdir(tree)
    sys.argv = ["run_eval.py", *words]
    try:
        runpy.run_path("examples/run_eval.py", run_name="__main__")
    except SystemExit:
        print_result(tree)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
