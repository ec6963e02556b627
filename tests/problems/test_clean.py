"""What our charts render for every profile and option, what examples hold and plain workloads: no rule minds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.check.objects import check
from grpo.helm.engines import Engine, Rendered
from grpo.manifests.loader import read
from grpo.values import job_cluster as cluster
from postrender.finding import Finding
from postrender.pipeline import Pipeline
from postrender.values import merge
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from postrender.wiring.transforms import KEEP
from tests import options
from tests.charts.test_goldens import cases
from tests.conftest import KINDS, PROFILES, ROOT, stack_files, thin
from tests.docs import pages

RenderText = Callable[..., Rendered]
HERE = Path(__file__).parent
FOREIGN = ROOT / "tests/e2e/foreign"
# Manifests; an example's values.yaml is judged as values, by the test of that example.
EXAMPLES = sorted(file for file in (ROOT / "examples").glob("*/*.yaml") if not file.name.startswith("values"))
GOLDENS = sorted({case[:3] for case in cases()})
# What rules say about the foreign manifests once they are wired: wiring adds, and mends no mistake of theirs.
LEFT_OF_FOREIGN: dict[str, set[str]] = {
    "kinds.yaml": set(),
    "verl.yaml": {
        "nodes/host-path-without-type",
        "pods/install-in-init-container",
        "storage/sidecar-without-bucket",
    },
}


def said(found: list[Finding]) -> list[str]:
    """Return findings as lines that a failure shows."""
    return [f"{each.at} {each.rule}: {each.what}" for each in found if each.severity != "info"]


def wiring_of(files: list[Path], more: options.Values, folder: Path) -> Wiring:
    """Return the wiring of values files with more values behind them."""
    (folder / "more.yaml").write_text(yaml.safe_dump(more), encoding="utf-8")
    return cluster.wiring_of(merge.load([*map(str, files), str(folder / "more.yaml")]))


def wired(data: bytes, wiring: Wiring) -> bytes:
    """Return manifests as the post-renderer makes them."""
    return b"".join(Pipeline(data, wiring, Options(policy=KEEP), gate=False).run().parts)


@pytest.mark.parametrize("row", thin(options.rows(), 36), ids=options.label)
def test_no_rule_objects_to_what_the_charts_render(row: options.Row, render_text: RenderText, tmp_path: Path) -> None:
    """With the values and without, for every profile and each pair of options."""
    values, profile = options.values(row), row["accelerator"]
    wiring = wiring_of(stack_files(profile), values, tmp_path)
    texts = {layer: render_text(layer, values, accelerator=profile).manifest.encode() for layer in options.layers(row)}
    if row["wiring"] == "off":
        # Whoever switches it off post-renders.
        texts = {layer: wired(text, wiring) for layer, text in texts.items()}
    documents = read(texts)
    assert said(check(documents, wiring, KINDS)) == []
    # Without the values nothing says that the machine's RDMA is not wanted.
    left = {"network/no-rdma-interfaces", "network/devices-missing"} if row["network"] == "none" else set()
    assert {each.rule for each in check(documents, None, KINDS) if each.severity != "info"} <= left


@pytest.mark.parametrize(("accelerator", "recipe", "platform"), thin(GOLDENS, 16))
def test_no_rule_objects_to_the_golden_files(
    accelerator: str, recipe: str, platform: str, render_text: RenderText, tmp_path: Path
) -> None:
    """Rendered again: in the files themselves the programs are left out."""
    values = options.FACTORS["platform"][platform]
    layers = ("network", "storage", "raycluster", "grpo-job")
    texts = {
        layer: render_text(layer, values, accelerator=accelerator, recipe=recipe).manifest.encode() for layer in layers
    }
    wiring = wiring_of(stack_files(accelerator, recipe), values, tmp_path)
    for given in (None, wiring):
        assert said(check(read(texts), given, KINDS)) == []
        # Whoever installs one chart checks one chart.
        assert [each for name, text in texts.items() for each in said(check(read({name: text}), given, KINDS))] == []


@pytest.mark.parametrize("name", sorted(LEFT_OF_FOREIGN))
@pytest.mark.parametrize("profile", PROFILES)
def test_foreign_manifests_are_clean_once_wired(name: str, profile: str, tmp_path: Path) -> None:
    """As far as wiring can make them so, for the machine that they are for."""
    # A machine without a network for pods needs a site that says so.
    values: options.Values = {"network": {"mode": "none"}} if options.modes(profile) == ["none"] else {}
    wiring = wiring_of(stack_files(profile), values, tmp_path)
    if wiring.gpus != 8 or (name == "verl.yaml" and profile != "b200"):
        pytest.skip("it is for other machines")
    found = check(read({name: wired((FOREIGN / name).read_bytes(), wiring)}), wiring, KINDS)
    assert {each.rule for each in found if each.severity != "info"} == LEFT_OF_FOREIGN[name], said(found)


@pytest.mark.parametrize("name", thin([str(path.relative_to(ROOT)) for path in pages.PAGES], 3))
def test_no_rule_objects_to_what_the_documentation_installs(name: str, helm: Engine, tmp_path: Path) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    for one in pages.installs(page, pages.folder_of(page, tmp_path)):
        chart = str(ROOT / "charts" / one.layer)
        rendered = helm.render(chart, one.files, values=one.values, release=one.release, namespace=one.namespace)
        assert said(check(read({name: rendered.manifest.encode()}), None, KINDS)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_clean(path: Path) -> None:
    assert said(check(read({str(path): path.read_bytes()}), None, KINDS)) == []


def test_workloads_without_gpus_are_clean() -> None:
    """Rules about training say nothing of what takes no GPU."""
    path = HERE / "plain.yaml"
    assert said(check(read({str(path): path.read_bytes()}), None, KINDS)) == []
