"""Fixtures that render the charts in-process and check every object that comes out."""

from __future__ import annotations

import functools
import gc
import os
import signal
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

from grpo.generate.release import package
from grpo.helm.engines import Embedded, Rendered
from postrender.manifests.schemas import Kinds
from tests.rendering import SharedHelm

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("network", "storage", "raycluster", "grpo-job")
PROFILES = tuple(sorted(path.stem for path in (ROOT / "values/accelerators").glob("*.yaml")))
# The two that recipes are written for; what each test says of them it says of the others' mechanism too.
ACCELERATORS = ("b200", "h200")
RECIPES = tuple(sorted(path.stem for path in (ROOT / "values/recipes").glob("*.yaml")))
SITE = ROOT / "tests/site.yaml"

# `make test` must be quick and the same each time; `make check` tries more, and other examples each time.
settings.register_profile("quick", max_examples=20, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=100, deadline=None)
settings.load_profile("quick")

# The tests read many hundred files. PyYAML's parser in C reads them as the one in Python does, in a tenth of the time.
yaml.safe_load = functools.partial(yaml.load, Loader=yaml.CSafeLoader)
yaml.safe_load_all = functools.partial(yaml.load_all, Loader=yaml.CSafeLoader)

# What programs of jobs/ and the limits of rewards handle.
WATCHED = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGVTALRM)

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-goldens", action="store_true", help="rewrite tests/goldens instead of comparing with it")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, and let it pass over what was collected: all of that stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def same_handlers() -> Iterator[None]:
    """Fail a test that leaves another handler of a signal behind, in place of a later test that it would kill."""
    before = [signal.getsignal(number) for number in WATCHED]
    yield
    assert [signal.getsignal(number) for number in WATCHED] == before


class Points:
    """Where a test let something fail, by kind: what stands before the colon."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}

    def add(self, what: str) -> None:
        kind = what.partition(":")[0]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def all(self) -> int:
        return sum(self.kinds.values())


@pytest.fixture
def points(record_property: Callable[[str, object], None]) -> Points:
    """Return what counts the points of a test, for the table at the end."""
    counted = Points()
    record_property("points", counted.kinds)
    return counted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at how many points something failed, and in how many tests that broke a law."""
    reports = [one for some in terminalreporter.stats.values() for one in some if getattr(one, "when", "") == "call"]
    counted = [(one, kinds) for one in reports for name, kinds in one.user_properties if name == "points" and kinds]
    for one, kinds in sorted(counted, key=lambda each: str(each[0].nodeid)):
        text = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        terminalreporter.write_line(f"{sum(kinds.values()):>7,} points, {one.nodeid.rpartition('::')[2]}: {text}")
    if counted:
        broken, total = sum(one.failed for one, _ in counted), sum(sum(kinds.values()) for _, kinds in counted)
        terminalreporter.write_line(f"{total:>7,} points in {len(counted)} tests, {broken} of them failed")


@pytest.fixture
def write_goldens(request: pytest.FixtureRequest) -> bool:
    """Say whether the goldens are to be rewritten."""
    return bool(request.config.getoption("--write-goldens"))


def examples(full: int) -> int:
    """Return how many examples a property is tried with, where `make check` tries so many."""
    return full * settings.default.max_examples // 100


def thin(cases: Sequence[Any], step: int) -> list[Any]:
    """Return the cases of a test as parameters: `make test` runs one of so many, and `make check` runs all."""
    every = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[pytest.mark.full] if at % step else []) for at, case in enumerate(every)]


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


def read_values(helm: Embedded, text: str) -> Any:
    """Read one values document with Helm's own reader."""
    return helm.ask({"op": "read", "text": text})["values"]


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


@pytest.fixture(scope="session", autouse=True)
def shared_helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedHelm]:
    """Let all tests ask one embedded Helm, which renders the same chart with the same values once."""
    folder = tmp_path_factory.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the one of the run.
    of_run = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "renders"
    cache = getattr(request.config, "cache", None)  # missing with -p no:cacheprovider
    shared = SharedHelm(of_run, cache.mkdir("renders") if cache else of_run / "kept")
    with shared.patched():
        yield shared


@pytest.fixture(scope="session")
def helm(shared_helm: SharedHelm) -> Embedded:
    """Return the embedded Helm of the run."""
    return shared_helm.engine


@pytest.fixture
def unshared_helm(shared_helm: SharedHelm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test start embedded Helms of its own, and render everything anew."""
    monkeypatch.setattr(shared_helm, "is_bypassed", True)


@pytest.fixture
def render_text(helm: Embedded) -> Callable[..., Rendered]:
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
