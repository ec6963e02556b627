"""Every recipe's entrypoint on a real Ray head, with a stand-in trainer: by the Jobs REST API, and by KubeRay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from conftest import REPOSITORY, NewStack
from harness import jobs_api
from harness.image import Image
from harness.rayhead import RayHeads
from harness.stack import Stack
from harness.trainer import Call
from harness.waiting import until

RECIPES = sorted(path.stem for path in (REPOSITORY / "values/recipes").glob("*.yaml"))
# The text in which a shell, YAML, JSON and Helm would each find something of theirs.
HOSTILE = 'it\'s "quoted" $HOME `id` # no comment, {x} \\\nsecond line: 1e-5'


REFERENCE = yaml.safe_load((REPOSITORY / "values/recipes/gemma3-27b-gsm8k.yaml").read_text())


def plan_text(entrypoint: str) -> str:
    return entrypoint.split("GRPO_PLAN'\n", 1)[1].split("\nGRPO_PLAN\n", 1)[0]


@dataclass(frozen=True)
class Submitted:
    """One recipe's job on the head, and what the chart rendered for it."""

    recipe: str
    entrypoint: str

    @property
    def plan(self) -> dict[str, Any]:
        return dict(json.loads(plan_text(self.entrypoint)))

    def submit(self, token: str) -> str:
        environment = {"GRPO_CLUSTER_FACTS": json.dumps(self.plan["facts"])}
        body = {"entrypoint": self.entrypoint, "runtime_env": {"env_vars": environment}}
        return str(jobs_api.ask("", token, body)["submission_id"])


def until_done(identity: str, token: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = jobs_api.ask(identity, token)
        return found if found["status"] in ("SUCCEEDED", "FAILED", "STOPPED") else None

    # All recipes start their workers at once, on as few processors as the machine has.
    return until(ended, f"Ray job {identity}", 400)


@pytest.fixture(scope="module")
def cluster(new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """Four nodes of eight GPUs, the most that a recipe asks for."""
    with ray_heads.running(new_stack("b200", ray={"workers": {"replicas": 4}})) as stack:
        yield stack


@pytest.fixture(scope="module")
def calls(cluster: Stack, image: Image, ray_heads: RayHeads) -> dict[str, tuple[Submitted, Call]]:
    """Run all recipes at once, and return for each what was asked and what its trainer saw."""
    image.behave()
    submitted = {}
    for recipe in RECIPES:
        own = {"own": {"text": HOSTILE, "small": 1e-09}}
        name = f"r-{recipe}".replace(".", "-")[:32].rstrip("-")
        job = {"name": name, "config": own, "env": {"HOSTILE": {"value": HOSTILE}}}
        # Each for as many nodes as the recipe itself asks for, on the one cluster that has enough for all.
        stack = replace(cluster, recipe=recipe, site={"job": job})
        submitted[recipe] = Submitted(recipe, stack.entrypoint())
        image.prepare(stack, submitted[recipe].plan)
    token = ray_heads.token
    identities = {recipe: job.submit(token) for recipe, job in submitted.items()}
    for recipe, identity in identities.items():
        done = until_done(identity, token)
        assert done["status"] == "SUCCEEDED", f"{recipe}: {done['message']}"
    assert len(image.calls()) == len(RECIPES)
    return {recipe: (job, find(image.calls(), job)) for recipe, job in submitted.items()}


def find(calls: list[Call], job: Submitted) -> Call:
    directory = job.plan["runDirectory"]
    return next(call for call in calls if any(word.startswith(f"{directory}/") for word in call.argv))


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_trainer_gets_what_the_chart_rendered(recipe: str, calls: dict[str, tuple[Submitted, Call]]) -> None:
    job, call = calls[recipe]
    config = yaml.safe_load(call.config)
    assert config == job.plan["config"]
    assert config["own"] == {"text": HOSTILE, "small": 1e-09}
    assert call.argv[1:] == job.plan["command"][-len(call.argv[1:]) :]
    assert call.environ["HOSTILE"] == HOSTILE
    assert call.environ["GRPO_DATASETS"] == "/data/datasets"
    assert call.cwd == job.plan["workingDirectory"] or call.cwd.endswith("/work")


@pytest.fixture(scope="module")
def operated(cluster: Stack, image: Image, calls: object) -> Iterator[dict[str, Stack]]:
    """Install every recipe's job on the one cluster, for the nodes that it asks for: what the cluster is stays."""
    image.behave()
    stacks = {}
    for recipe in RECIPES:
        name = f"o-{recipe}".replace(".", "-")[:32].rstrip("-")
        alone = replace(cluster, recipe=recipe, site={"job": {"name": name}})
        nodes = json.loads(plan_text(alone.entrypoint()))["workers"]["nodes"]
        stacks[recipe] = cluster.with_recipe(recipe).with_values(
            job={"name": name, "nodes": nodes},
            images=REFERENCE["images"],
            ray={"head": {"gpus": {"enabled": False}}},
            tracking={"wandb": {"enabled": False}},
        )
        image.prepare(stacks[recipe], json.loads(plan_text(stacks[recipe].entrypoint())))
        stacks[recipe].install("grpo-job")
    yield stacks
    for stack in stacks.values():
        stack.uninstall("grpo-job")


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_operator_runs_every_recipe(recipe: str, operated: dict[str, Stack], image: Image) -> None:
    operated[recipe].until_job("SUCCEEDED", seconds=240)
    directory = f"/data/runs/{operated[recipe].job}/"
    (call,) = [call for call in image.calls() if any(word.startswith(directory) for word in call.argv)]
    assert yaml.safe_load(call.config) == json.loads(plan_text(operated[recipe].entrypoint()))["config"]
