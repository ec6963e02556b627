"""Stand-ins for what the frameworks import and a test machine lacks; Python imports this file at its start.

ray and torch do what the rewards ask of them, in this process. hydra.utils.get_object is a plain import. The others are
empty: each of their attributes is a class that accepts everything.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import inspect
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

LIBRARIES = {
    "PIL",
    "aiohttp",
    "datasets",
    "decord",
    "fastapi",
    "huggingface_hub",
    "hydra",
    "numpy",
    "psutil",
    "pydantic",
}
LIBRARIES |= {"pynvml", "ray", "requests", "rich", "tensordict", "torch", "torchdata", "torchvision", "tqdm"}
LIBRARIES |= {"transformers", "uvicorn", "wandb", "zmq"}
LIBRARIES |= {"matplotlib", "mlflow", "prometheus_client", "swanlab"}


class Loose(type):
    """torch.distributed may be asked for before it is imported as a module."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Loose(name, (AnyClass,), {})


class AnyClass(metaclass=Loose):
    """Subclassed, subscribed, called, used as a decorator: it makes no difference."""

    def __init_subclass__(cls, **kwargs: Any) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args else None

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyClass()


class Stub(ModuleType):
    __version__ = "2.10.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = Loose(name, (AnyClass,), {})
        setattr(self, name, found)
        return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] in LIBRARIES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return Stub(spec.name)

    def exec_module(self, module: Any) -> None:
        for name, value in KNOWN.get(module.__name__, {}).items():
            setattr(module, name, value)


class Call:
    """A method of an actor, or the actor class itself: .remote() runs it at once."""

    def __init__(self, function: Any, options: dict[str, Any] | None = None) -> None:
        self.function, self.given = function, options or {}

    def options(self, **options: Any) -> Call:
        return Call(self.function, options)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        result = self.function(*args, **kwargs)
        return Actor(result, self.given) if inspect.isclass(self.function) else Reference(result)


class Reference:
    def __init__(self, value: Any) -> None:
        self.value = value


class Actor:
    def __init__(self, instance: Any, options: dict[str, Any]) -> None:
        self.instance, self.options = instance, options

    def __getattr__(self, name: str) -> Any:
        return Call(getattr(self.instance, name))


def remote(*args: Any, **options: Any) -> Any:
    return Call(args[0]) if args else Call


def get(references: Any, **kwargs: Any) -> Any:
    return [part.value for part in references] if isinstance(references, list) else references.value


class Tensor(list[Any]):
    ndim = 1

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def tensor(values: Any, dtype: Any = None) -> Tensor:
    return Tensor(float(value) for value in values)


def get_object(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


KNOWN: dict[str, dict[str, Any]] = {
    "ray": {"remote": remote, "get": get, "kill": lambda actor: None, "__version__": "2.49.2"},
    "torch": {
        "Tensor": Tensor,
        "tensor": tensor,
        "ones_like": lambda values: Tensor(1.0 for _ in values),
        "npu": SimpleNamespace(is_available=lambda: False),
    },
    "hydra.utils": {"get_object": get_object},
}
sys.meta_path.insert(0, Finder())
