"""The files: what a header says, image and version that belong together, every layer of every version, one GPU."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from grpo.helm.engines import Engine
from tests import options
from tests.conftest import ACCELERATORS, LAYERS, PROFILES, RECIPES, ROOT, SITE, Render, thin
from tests.recipes.contract import DEFAULT, REPOSITORIES, SETUPS, VERSIONS
from tests.recipes.rendered import ONE_GPU, framework_file, leaves, recipe_file, render_plan, stack

OTHERS = VERSIONS[1:]
FOLDERS = ("bench", "charts", "docs", "examples", "grpo", "jobs", "postrender", "schemas", "tests", "values")
TEXTS = (".in", ".json", ".md", ".py", ".tpl", ".txt", ".yaml", ".yml")
LABELS = (
    "# Source: ",
    "# Not run on hardware by us.",
    "# Why these numbers:",
    "# What differs from the published set-up",
    "# Expected: ",
)


@pytest.mark.parametrize("recipe", sorted(SETUPS))
def test_the_header_states_what_a_reader_needs(recipe: str) -> None:
    """What it is, where from, why so, what was changed and why, what to expect, and that nobody here ran it."""
    lines = recipe_file(recipe).read_text("utf-8").splitlines()
    header = [line for line in lines[1:] if line.startswith("#")][: lines.index("images:") - 1]
    assert "NeMo RL" in header[0]
    starts = [next((i for i, line in enumerate(header) if line.startswith(label)), None) for label in LABELS]
    assert None not in starts, dict(zip(LABELS, starts, strict=True))
    first, last = starts[3], starts[4]
    changes = header[first:last]
    assert "(old → new), and why" in changes[0]
    for name in SETUPS[recipe].changed:
        assert any(line.startswith(f"#   {name} ") for line in changes), name
    assert max(len(line) for line in lines) <= 132


def test_every_recipe_has_its_own_run_name_and_no_site_file_sets_one() -> None:
    """Another recipe is another run: with the name of the first one, it would get its directory and its RayJob."""
    names = {recipe: yaml.safe_load(recipe_file(recipe).read_text("utf-8"))["job"]["name"] for recipe in RECIPES}
    assert len(set(names.values())) == len(RECIPES), names
    # The longest command of the guide and the RayJob of each task have room for it.
    assert max(map(len, names.values())) <= 24, names
    for site in (SITE, ROOT / "values/examples/site.yaml"):
        assert "name" not in yaml.safe_load(site.read_text("utf-8")).get("job", {}), site


def test_the_image_tag_matches_the_version(helm: Engine) -> None:
    """The tag of the image is the version that chooses the script, and Ray's version is the image's own."""
    ray = {"v0.8.0": "2.58.0", "v0.7.0": "2.55.1", "v0.6.0": "2.54.0", "v0.5.0": "2.49.2", "v0.4.0": "2.46.0"}
    files = {recipe: recipe_file(recipe) for recipe in SETUPS} | {
        version: framework_file(version) for version in OTHERS
    }
    assert {file.stem for file in (ROOT / "values/frameworks").glob("nemo-rl-*.yaml")} == {
        f"nemo-rl-{version}" for version in OTHERS
    }
    images = set()
    for name, file in files.items():
        tree = yaml.safe_load(file.read_text("utf-8"))
        image, version = tree["images"]["training"], tree["job"]["version"]
        assert (image["tag"], image["rayVersion"]) == (version, ray[version]), name
        assert set(image) - {"arm64"} == {"repository", "tag", "rayVersion", "libraryPath", "minimumDriver"}
        assert version == (name if name in OTHERS else DEFAULT)
        images.add(json.dumps(image))
    assert len(images) == len(VERSIONS)
    script = {version: render_plan(helm, stack("smoke", version))["command"][1] for version in VERSIONS}
    assert script == dict.fromkeys(VERSIONS, "examples/run_grpo.py") | {"v0.4.0": "examples/run_grpo_math.py"}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_framework_file_sets_no_key_that_a_profile_sets(profile: str) -> None:
    """So the place of the profile does not matter; the framework's file only has to come after the recipe."""
    tree = yaml.safe_load((ROOT / f"values/accelerators/{profile}.yaml").read_text("utf-8"))
    theirs = {path for path, _ in leaves(tree)}
    for version in OTHERS:
        assert not theirs & {path for path, _ in leaves(yaml.safe_load(framework_file(version).read_text("utf-8")))}


@pytest.mark.parametrize("platform", thin(["gke-standard", "gke-autopilot"], 2))
@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
@pytest.mark.parametrize("recipe", thin(sorted(SETUPS), 4))
def test_every_layer_renders(recipe: str, accelerator: str, platform: str, render: Render) -> None:
    """On both machines and both kinds of GKE cluster, each object valid by its schema."""
    for layer in LAYERS:
        render(layer, options.FACTORS["platform"][platform], files=[*stack(recipe, DEFAULT, accelerator), SITE])


@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize("recipe", thin(sorted(SETUPS), 10))
def test_an_older_version_needs_only_one_more_file(recipe: str, version: str, render: Render) -> None:
    """Cluster and job render from it: the cluster runs the image of that version, and its head has no GPUs."""
    files = [*stack(recipe, version), SITE]
    (cluster,) = (item for item in render("raycluster", files=files) if item["kind"] == "RayCluster")
    group = cluster["spec"]["headGroupSpec"]
    head = group["template"]["spec"]["containers"][0]
    assert head["image"] == f"nvcr.io/nvidia/nemo-rl:{version}"
    start, has_gpus = group["rayStartParams"], any(name.endswith("/gpu") for name in head["resources"]["limits"])
    # One recipe trains on the head's GPUs.
    assert has_gpus == (recipe == "qwen3-1.7b-deepscaler") == (start["num-gpus"] != "0")
    if not has_gpus:
        assert start["num-cpus"] == ("0" if version == "v0.8.0" else "1")
    assert render("grpo-job", files=files)


def test_smoke_needs_only_one_gpu(render: Render) -> None:
    """The overlay after the profile is all that a small share of a node needs."""
    files = stack("smoke")
    small = [files[0], ONE_GPU, files[1], SITE]
    (cluster,) = (item for item in render("raycluster", files=small) if item["kind"] == "RayCluster")
    (worker,) = cluster["spec"]["workerGroupSpecs"]
    limits = worker["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (worker["replicas"], str(limits["nvidia.com/gpu"])) == (1, "1")
    assert "networking.gke.io/interfaces" not in worker["template"]["metadata"].get("annotations", {})
    assert render("network", files=small) == []


@pytest.mark.parametrize("recipe", sorted(SETUPS))
def test_fetch_and_prepare_data_cover_what_training_reads(recipe: str) -> None:
    """Model and data sets are fetched before, and what older versions read from files is prepared from the same."""
    job = yaml.safe_load(recipe_file(recipe).read_text("utf-8"))["job"]
    assert list(job["fetch"]["models"]) == [job["config"]["policy"]["model_name"]]
    assert set(job["fetch"]["datasets"]) == REPOSITORIES[SETUPS[recipe].dataset]
    prepared = {entry["repository"] for entry in job.get("prepareData", {}).values()}
    assert prepared == ({"openai/gsm8k"} if SETUPS[recipe].dataset == "gsm8k" else set())
    revisions = [entry["revision"] for kind in job["fetch"].values() for entry in kind.values()]
    assert set(revisions) == {"main"}


def test_a_computed_figure_is_not_called_a_measurement() -> None:
    """The published log of Gemma 3 27B has about 950 s a step on 16 training GPUs; 1850 s on 8 is computed from it."""
    claim = re.compile(r"\b(?:published|measured)\b[^.:;]*\b1,?850\b|\b1,?850 s[^.:;]*\b(?:published|measured)\b")
    files = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    texts = {path: path.read_text("utf-8") for path in files if path.suffix in TEXTS and path.is_file()}
    # Most files do not have the number; a comment of several lines is one text.
    found = {path: claim.search(re.sub(r"\s+(?:#\s+)?", " ", text)) for path, text in texts.items() if "850" in text}
    assert {str(path.relative_to(ROOT)): hit[0] for path, hit in found.items() if hit} == {}
