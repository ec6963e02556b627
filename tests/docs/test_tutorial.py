"""docs/tutorial.md: every name in it is what the charts render, for other machines and other names too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from postrender.generate import tutorial
from postrender.helm.engines import Engine, Rendered
from postrender.plan import cost
from postrender.start import guide, names, training, words
from postrender.start.names import Shown
from postrender.start.words import GuideError
from postrender.values import merge
from postrender.values.config import Effective
from tests.conftest import LAYERS, RECIPES, ROOT, by_kind, thin
from tests.docs import pages

RELEASE = {"network": "-network", "storage": "-storage", "raycluster": "-ray"}
OTHER = """
stack: {name: team7, names: {cluster: ours, serviceAccount: pods}}
platform: {projectId: their-project, projectNumber: '42', capacity: {kind: reservation, reservation: blue}}
network:
  names: {prefix: h200-}
  gvnic: {prefix: front, subnet: front-a}
  rdma: {prefix: back, vpc: backbone, subnets: {rdma-3: spare}}
storage:
  data: null
  weights: null
  runs: {mountPath: /mnt/runs, gcsfuse: {bucket: their-bucket, purpose: checkpoints}}
huggingface: {secret: {name: hub, key: token}, cache: {volume: runs}}
job: {name: first, attempt: 3, volume: runs}
tracking: {tensorboard: {server: {volume: runs}}}
"""
WHOSE = ", with the times of the machines that the recipe was written for"
SPOT = "platform: {capacity: {kind: spot}}\nray: {workers: {replicas: 5}, test: {timeoutSeconds: 600}}\n"


def page_of(files: list[str]) -> str:
    return tutorial.page(ROOT, merge.defaults(), files)


class Page:
    """The page of one stack, and what the charts render for it."""

    def __init__(self, files: list[str], helm: Engine, folder: Path) -> None:
        self.files, self.text = files, page_of(files)
        self.lines = list(pages.commands(self.text))
        (folder / "values").symlink_to(ROOT / "values")
        (folder / "my-site.yaml").symlink_to(ROOT / tutorial.EXAMPLE)
        self.installs = list(pages.installs(self.text, folder))
        self.rendered = [
            helm.render(
                str(ROOT / "charts" / one.layer),
                one.files,
                values=one.values,
                release=one.release,
                namespace=one.namespace,
                notes=True,
            )
            for one in self.installs
        ]

    def of(self, layer: str, task: str = "train") -> Rendered:
        """Return what the page's helm command of a layer, or of a task, renders."""
        return next(
            each
            for one, each in zip(self.installs, self.rendered, strict=True)
            if one.layer == layer and one.values.get("job", {}).get("task", "train") == task
        )

    def command(self, start: str) -> str:
        (found,) = [line for line in self.lines if line.startswith(start)]
        return found

    def words(self, start: str) -> list[str]:
        return [word for line in self.lines if line.startswith(start) for word in shlex.split(line)]


def files(tmp_path: Path, accelerator: str, recipe: str, extra: str) -> list[str]:
    found = [f"values/accelerators/{accelerator}.yaml", f"values/recipes/{recipe}.yaml", tutorial.EXAMPLE]
    if not extra:
        return found
    (tmp_path / "mine.yaml").write_text(extra, encoding="utf-8")
    return [*found, str(tmp_path / "mine.yaml")]


@pytest.fixture(
    params=[
        ("b200", "gemma3-27b-gsm8k", ""),
        ("h200", "gemma3-27b-gsm8k", OTHER),
        ("b200", "gemma3-27b-gsm8k", SPOT),
        ("h200", "smoke", ""),
    ],
    ids=["the page", "other names", "spot", "smoke"],
)
def page(request: pytest.FixtureRequest, tmp_path: Path, helm: Engine) -> Page:
    (tmp_path / "work").mkdir()
    return Page(files(tmp_path, *request.param), helm, tmp_path / "work")


def notes(rendered: Rendered) -> str:
    """Return the notes with each command on one line, with single spaces."""
    return re.sub(r"[ \t]+", " ", (rendered.notes or "").replace("\\\n", " "))


def test_every_helm_command_renders_and_all_layers_are_there(page: Page) -> None:
    assert {one.layer for one in page.installs} == {*LAYERS}
    assert {one.namespace for one in page.installs} == {"rl"}
    tasks = [one.values["job"]["task"] for one in page.installs if one.values]
    assert [task for task in tasks if task != "prepare-data"] == ["fetch", "convert", "evaluate"]


def test_networks_and_subnets_are_those_of_the_network_chart(page: Page) -> None:
    objects = page.of("network").documents
    sets = [each["spec"] for each in objects if each["kind"] == "GKENetworkParamSet"]
    made = [
        (re.findall("--network=(\\S+)", line)[0], line.split()[5])
        for line in page.lines
        if line.startswith("gcloud compute networks subnets create")
    ]
    assert made == [(one["vpc"], one["vpcSubnet"]) for one in sets]
    ranges = re.findall(r"--range=(\S+)", "\n".join(page.lines))
    assert len(set(ranges)) == len(made)
    vpcs = list(dict.fromkeys(one["vpc"] for one in sets))
    created = [line.split() for line in page.lines if line.startswith("gcloud compute networks create")]
    assert [words[4] for words in created] == vpcs
    assert ["--network-profile=$ZONE-vpc-roce" in words for words in created] == [False, True]
    deleted = page.words("gcloud compute networks subnets delete")[5:-2]
    assert deleted == [name for _, name in made]
    assert page.words("gcloud compute networks delete")[4:-1] == vpcs
    firewall = page.words("gcloud compute firewall-rules create")[4]
    assert page.words("gcloud compute firewall-rules delete")[4] == firewall
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Network"]
    assert f"Check: {names[0]} and {names[1]} to {names[-1]} exist" in page.text


def test_the_node_pool_is_the_one_of_the_network_charts_notes(page: Page) -> None:
    theirs = next(line.strip() for line in notes(page.of("network")).splitlines() if "node-pools create" in line)
    nodes = by_kind(page.of("raycluster").documents, "RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"]
    named = {"POOL": "gpus", "CLUSTER": "$CLUSTER", "LOCATION": "$REGION", "ZONE": "$ZONE", "NODES": str(nodes)}
    for word, name in named.items():
        theirs = re.sub(rf"\b{word}\b", name, theirs)
    assert sorted(page.words("gcloud container node-pools create")) == sorted(shlex.split(theirs))


def test_what_the_notes_ask_for_is_what_the_page_does(page: Page) -> None:
    said = notes(page.of("storage")) + notes(page.of("network")) + notes(page.of("raycluster"))
    asked = [line.strip() for line in said.splitlines() if re.match(" +(gcloud storage|kubectl|helm install k)", line)]
    buckets = sum(each["kind"] == "PersistentVolume" for each in page.of("storage").documents)
    assert len(asked) == 5 + 2 * buckets
    for command in asked:
        # What storage leaves behind goes with the cluster.
        if "TOKEN_FILE" in command or not command.startswith(("kubectl get", "kubectl delete")):
            assert command.replace("=REGION", "=$REGION") in [re.sub(" +", " ", line) for line in page.lines], command


def test_names_of_the_cluster_the_claim_and_the_tests_are_the_charts(page: Page) -> None:
    cluster = by_kind(page.of("raycluster").documents, "RayCluster")["metadata"]["name"]
    assert f"raycluster/{cluster} " in page.command("kubectl wait --for=jsonpath='{.status.state}'")
    assert f"service/{cluster}-head-svc " in page.command("kubectl exec")
    claim = by_kind(page.of("storage").documents, "PersistentVolumeClaim")["metadata"]["name"]
    assert page.command("kubectl get pvc").split()[3] == claim
    account = by_kind(page.of("raycluster").documents, "RayCluster")["spec"]["headGroupSpec"]["template"]["spec"]
    assert f"service account `{account['serviceAccountName']}`" in page.text.replace("\n", " ")
    test = re.search(r"Test: (helm test .*? --timeout \S+)", notes(page.of("raycluster")))
    assert test
    assert page.command("helm test") == test[1]


def test_jobs_and_directories_are_what_the_charts_make(page: Page) -> None:
    made = {}
    for one, each in zip(page.installs, page.rendered, strict=True):
        if one.layer == "grpo-job":
            made[by_kind(each.documents, "RayJob")["metadata"]["name"]] = each
    named = re.findall(r"rayjob[/ ]([\w-]+)", "\n".join(line for line in page.lines if " -w" not in line))
    assert {*named} == {*made}
    directory = re.search(r"Checkpoints and logs: (\S+)", notes(page.of("grpo-job")))
    assert directory
    assert f"`{directory[1]}/hf/step_N`" in page.text
    assert f"`{directory[1]}/evaluations`" in page.text
    volumes = [each["spec"] for each in page.of("storage").documents if each["kind"] == "PersistentVolume"]
    buckets = [each["csi"]["volumeHandle"] for each in volumes]
    mount = re.search(r"mounted at (\S+)", notes(page.of("storage")))
    assert mount
    run = directory[1].removeprefix(mount[1])
    entrypoints = "".join(by_kind(each.documents, "RayJob")["spec"]["entrypoint"] for each in made.values())
    for line in page.lines:
        for path in re.findall(r"gs://\S+", line):
            name, _, inside = path.removeprefix("gs://").partition("/")
            assert name in (buckets if not inside else buckets[:1])
            rest = inside and f"/{inside}"
            assert rest == "" or rest.startswith(f"{run}/")
            if rest.endswith("/output.log"):
                assert f'"{mount[1]}{rest.rpartition("/attempts/")[0]}"' in entrypoints
    assert page.words("grpo checkpoints")[2] == page.words("grpo samples")[2] == run.rpartition("/")[2]


def test_all_that_was_installed_is_uninstalled(page: Page) -> None:
    gone = [word for line in page.lines if line.startswith("helm uninstall") for word in line.split()[2:-2]]
    assert sorted(gone) == sorted(one.release for one in page.installs)


def test_the_head_fits_its_machine(page: Page) -> None:
    spec = by_kind(page.of("raycluster").documents, "RayCluster")["spec"]["headGroupSpec"]["template"]
    asked = [one["resources"]["requests"] for one in spec["spec"]["containers"]]
    sidecar = spec["metadata"]["annotations"]
    cores = sum(float(one["cpu"]) for one in asked) + float(sidecar["gke-gcsfuse/cpu-limit"])
    quantities = [*(one["memory"] for one in asked), sidecar["gke-gcsfuse/memory-limit"]]
    memory = sum(words.units(each) for each in quantities)
    create = page.command("gcloud container clusters create")
    size = int(re.findall("n2-standard-([0-9]+)", create)[0])
    assert cores < size
    assert memory * 1.0737 < 4 * size * 0.95
    assert f"asks for {cores:g} cores and {memory:g}Gi" in page.text.replace("\n", " ")
    disk = [*(one["ephemeral-storage"] for one in asked), sidecar["gke-gcsfuse/ephemeral-storage-limit"]]
    assert int(re.findall("--disk-size=([0-9]+)", create)[0]) > sum(map(words.units, disk)) * 1.0737 + 100


def test_names_that_changed_are_gone(tmp_path: Path) -> None:
    text = page_of(files(tmp_path, "h200", "gemma3-27b-gsm8k", OTHER))
    commands = "\n".join(pages.blocks(text, "bash"))
    for old in ("my-project", "my-gvnic", "my-rdma", "my-bucket", "gemma-", "gemma3-gsm8k", "hf-secret", "b200"):
        assert old not in commands.replace("gemma3-27b-gsm8k.yaml", ""), old


def test_the_recipes_numbers_are_its_own(tmp_path: Path) -> None:
    text = page_of(files(tmp_path, "b200", "gemma3-27b-gsm8k", "job: {config: {grpo: {max_num_steps: 40}}}"))
    assert "about 20.6 hours on the machines that the recipe was written for (40 steps of 1850 s)" in text.replace(
        "\n", " "
    )
    assert "prepare-data" not in "".join(pages.blocks(text, "bash"))
    older = "job: {version: v0.5.0}\nray: {head: {numCpus: 1}}\n"
    text = page_of(files(tmp_path, "b200", "gemma3-27b-gsm8k", older))
    assert "job.task=prepare-data" in "".join(pages.blocks(text, "bash"))


def prose(tmp_path: Path, recipe: str, extra: str = "") -> str:
    return " ".join(page_of(files(tmp_path, "b200", recipe, extra)).split())


def test_one_is_no_plural(tmp_path: Path) -> None:
    text = prose(tmp_path, "gemma3-1b-openmath", "job: {config: {checkpointing: {save_period: 1}}}")
    assert not re.search(r"\b1 (nodes|steps|answers|GPU nodes|checkpoints)\b", text)
    for said in (
        "on 1 node `",
        "The GPU node is most of the cost",
        "1 node is `Ready`",
        "1 answer to each",
        "every step.",
    ):
        assert said in text
    two = prose(tmp_path, "gemma3-27b-gsm8k")
    for said in (
        "on 2 nodes `",
        "The 2 GPU nodes are most of the cost",
        "2 nodes are `Ready`",
        "The task takes one of the GPU nodes",
    ):
        assert said in two


def test_sizes_are_rounded_up_and_few_steps_are_called_so(tmp_path: Path) -> None:
    """11 GiB of which a third is weights do not fit into 3."""
    text = prose(tmp_path, "gemma3-1b-openmath")
    assert "hold the weights, about 4 GiB in float32" in text
    assert "only show that the chain works" not in text
    few = prose(tmp_path, "gemma3-1b-openmath", "job: {config: {grpo: {max_num_steps: 10}}}")
    assert "is not significant; 10 steps only show that the chain works. The results" in few


def of_b200(steps: int, times: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "accelerator": {"name": "b200"},
        "ray": {"workers": {"replicas": 2}, "head": {"gpus": {"enabled": False}}},
        "job": {"config": {"grpo": {"max_num_steps": steps}}, "stepTimes": times},
    }


@pytest.mark.parametrize(
    ("said", "time"),
    [
        (
            "about 950 s a step; reward",
            "about 2.6 hours on the machines that the recipe was written for (10 steps of 950 s)",
        ),
        (
            "not the last. 40 s a step.",
            "about 7 minutes on the machines that the recipe was written for (10 steps of 40 s)",
        ),
        ("10.8 s a step.", "about 2 minutes on the machines that the recipe was written for (10 steps of 10.8 s)"),
        ("1024 a step, 512 an update", "hours"),
        ("92 s a step on two nodes, less on four", "hours"),
    ],
)
def test_the_time_is_read_as_the_headers_say_it(said: str, time: str) -> None:
    text = f"# a step is about 6 GiB; three.\n#\n# Expected: a reward.\n# {said}\nimages:\n"
    found = training.header(text, of_b200(10, {}))
    assert (found["time"], found["disk"], found["weights"]) == (time, "6", "2")


@pytest.mark.parametrize(
    ("times", "steps", "time", "whose"),
    [
        (
            {"b200": {"seconds": 92.2, "nodes": 2, "source": "run 7"}},
            100,
            "about 2.6 hours (100 steps of 92.2 s: run 7)",
            "",
        ),
        ({"b200": {"seconds": 92.2, "nodes": 2, "source": "run 7"}}, 0, "hours (a step of 92.2 s: run 7)", ""),
        (
            {"b200": {"seconds": 92.2, "nodes": 4, "source": "run 7"}},
            100,
            "hours; on 4 nodes of b200 a step took 92.2 s (run 7)",
            WHOSE,
        ),
        (
            {"b200": {"seconds": 50, "nodes": 2, "source": "mine"}},
            100,
            "about 1.4 hours (100 steps of 50 s: mine)",
            WHOSE,
        ),
        (None, 100, "about 2.6 hours on the machines that the recipe was written for (100 steps of 92 s)", WHOSE),
        (
            {"h200": {"seconds": 120, "nodes": 1, "source": "run 8"}},
            100,
            "hours; on 1 node of h200 a step took 120 s (run 8)",
            WHOSE,
        ),
    ],
)
def test_a_time_of_other_machines_is_called_so(
    times: Mapping[str, Any] | None, steps: int, time: str, whose: str
) -> None:
    found = training.header("# Expected: a reward; 92 s a step.\nimages:\n", of_b200(steps, times))
    assert found == {"time": time, "expected": f" Expected{whose}: a reward; 92 s a step."}


@pytest.mark.parametrize("machine", ["b200", "h200", "aks-gb300"])
@pytest.mark.parametrize("recipe", thin(RECIPES, 3))
def test_the_time_is_the_one_of_grpo_plan(machine: str, recipe: str) -> None:
    stack = [str(ROOT / f"values/{name}.yaml") for name in (f"accelerators/{machine}", f"recipes/{recipe}")]
    tree = merge.over_defaults(merge.load(stack))
    planned = cost.step_time(Effective(tree))
    said = training.header(guide.recipe_of(stack)[1], tree)["time"]
    assert bool(re.search(r"^[^;]* of [0-9.]+ s: ", said)) == bool(planned)
    if planned:
        assert f" of {planned.seconds:g} s: {planned.source})" in said


def test_what_a_header_lacks_is_left_out() -> None:
    found = training.header("# Mine.\nimages:\n", of_b200(0, {}))
    assert found == {"time": "hours", "expected": ""}


def test_a_name_that_nothing_has_is_refused() -> None:
    text = "{{#flag}}{{one}}{{/flag}}{{^flag}}{{two}}{{/flag}}"
    assert guide.filled(text, {"flag": False}, {"two": "2"}) == "2"
    with pytest.raises(GuideError, match="nothing is called one"):
        guide.filled(text, {"flag": True}, {"two": "2"})
    with pytest.raises(GuideError, match="nothing is called flag"):
        guide.filled(text, {}, {"one": "1", "two": "2"})


def test_every_name_and_flag_of_the_page_is_used() -> None:
    template = (ROOT / guide.TEMPLATE).read_text(encoding="utf-8")
    values = merge.load([str(ROOT / name) for name in tutorial.FILES]).effective()
    tree = merge.overlay(merge.defaults(), values)
    shown = Shown(("f",), "charts", "r", "# a step is about 6 GiB\nimages:\n")
    found, flags = names.names(tree, shown), names.flags(tree, shown)
    assert [name for name in [*found, *flags] if f"{name}}}}}" not in template] == []


def test_the_page_is_short_and_says_what_was_not_run() -> None:
    text = (ROOT / tutorial.PAGE).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) < 1500
    assert "Nothing here was run on GKE or on GPUs" in prose.replace("\n", " ")
