"""Fixtures that render the charts in-process and check every object that comes out."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from postrender.docs.package import package
from postrender.helm import Embedded, Engine, Rendered
from postrender.kinds import Kinds

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("network", "storage", "raycluster", "grpo-job")
PROFILES = tuple(sorted(path.stem for path in (ROOT / "values/accelerators").glob("*.yaml")))
# The two that recipes are written for; what each test says of them it says of the others' mechanism too.
ACCELERATORS = ("b200", "h200")
RECIPES = tuple(sorted(path.stem for path in (ROOT / "values/recipes").glob("*.yaml")))
SITE = ROOT / "values/examples/site.yaml"

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-goldens", action="store_true", help="rewrite tests/goldens instead of comparing with it")


@pytest.fixture
def write_goldens(request: pytest.FixtureRequest) -> bool:
    """Say whether the goldens are to be rewritten."""
    return bool(request.config.getoption("--write-goldens"))


def require_tool(name: str) -> Path:
    """Return a program of `make tools`; without it the test is skipped, or fails where CI asks for all tools."""
    program = ROOT / ".tools/bin" / name
    if program.exists():
        return program
    message = f"{name} was not built, so this was not tested: make tools"
    if os.environ.get("GRPO_REQUIRE_TOOLS"):
        pytest.fail(message)
    pytest.skip(message)


def stack_files(accelerator: str = "b200", recipe: str = "gemma3-27b-gsm8k") -> list[Path]:
    """Return the three files of a stack, in the order in which Helm takes them."""
    return [ROOT / f"values/accelerators/{accelerator}.yaml", ROOT / f"values/recipes/{recipe}.yaml", SITE]


def by_kind(objects: Sequence[Object], kind: str) -> Object:
    """Return the first object of a kind."""
    return next(item for item in objects if item["kind"] == kind)


KINDS = Kinds()


def checked(rendered: Rendered) -> list[Object]:
    """Return the objects, each valid by the schema of its kind."""
    objects = list(rendered.documents)
    for item in objects:
        violations = KINDS.judge([item])[0]
        assert not violations, f"{item['kind']} {item['metadata']['name']}: {violations}"
    return objects


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Package the charts as a release does, and unpack them where nothing else of the checkout lies."""
    folder = tmp_path_factory.mktemp("packages")
    for archive in package(folder / "dist"):
        with tarfile.open(archive) as tar:
            tar.extractall(folder / "charts", filter="data")
    return folder / "charts"


@pytest.fixture(scope="session")
def helm() -> Iterator[Engine]:
    """Start one embedded Helm for the whole run; each render loads its chart afresh."""
    with Embedded() as engine:
        yield engine


@pytest.fixture
def render_text(helm: Engine) -> Callable[..., Rendered]:
    """Render one layer of a stack: render_text("raycluster", {"ray": …}, accelerator="h200")."""

    def render(
        layer: str,
        values: Mapping[str, Any] | None = None,
        *,
        accelerator: str = "b200",
        recipe: str = "gemma3-27b-gsm8k",
        files: Sequence[Path] | None = None,
        chart: Path | None = None,
    ) -> Rendered:
        chosen = stack_files(accelerator, recipe) if files is None else files
        return helm.render(
            str(chart or ROOT / "charts" / layer), chosen, values=values, release=layer, namespace="team-a"
        )

    return render


@pytest.fixture
def render(render_text: Callable[..., Rendered]) -> Render:
    """Render one layer and return its objects, each checked against the schema of its kind."""

    def render_objects(*args: Any, **options: Any) -> list[Object]:
        return checked(render_text(*args, **options))

    return render_objects
