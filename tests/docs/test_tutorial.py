"""docs/tutorial.md: every name in it is what the charts render, for other machines and other names too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from grpo.generate import tutorial
from grpo.helm.engines import Engine, Rendered
from grpo.plan import cost
from grpo.start import guide, names, training, words
from grpo.start.names import Shown
from grpo.start.words import GuideError
from grpo.values.config import RunConfig
from postrender.values import merge
from tests.conftest import LAYERS, RECIPES, ROOT, Render, by_kind, thin
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
LIMITED = "network: {podPolicy: {enabled: true}}\n"
SPOT = "platform: {capacity: {kind: spot}}\nray: {workers: {replicas: 5}, test: {timeoutSeconds: 600}}\n"


def page_of(files: list[str]) -> str:
    return tutorial.page(ROOT, merge.defaults(), files)


def told(files: list[str]) -> dict[str, str]:
    """Return the names that the page is filled with."""
    found = [str(ROOT / name) for name in files]
    tree = merge.without_nulls(merge.overlay(merge.defaults(), merge.load(found).as_helm_merges()))
    return names.names(tree, Shown(tuple(files), "charts", *guide.recipe_of(found, tree), example=tutorial.EXAMPLE))


def numbers(text: str) -> list[str]:
    """Return the numbers of a text that are no part of a name."""
    return re.findall(r"(?<![\w.-])[0-9]+(?:\.[0-9]+)?(?![\w.])", text)


class Page:
    """The page of one stack, and what the charts render for it."""

    def __init__(self, files: list[str], helm: Engine, folder: Path) -> None:
        self.files, self.text, self.told = files, page_of(files), told(files)
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
    scope="module",
    params=[
        ("b200", "gemma3-27b-gsm8k", ""),
        ("h200", "gemma3-27b-gsm8k", OTHER),
        ("b200", "gemma3-27b-gsm8k", SPOT),
        ("h200", "smoke", ""),
        ("h200", "smoke", LIMITED),
    ],
    ids=["the page", "other names", "spot", "smoke", "limited"],
)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, helm: Engine) -> Page:
    folder = tmp_path_factory.mktemp("page")
    (folder / "work").mkdir()
    return Page(files(folder, *request.param), helm, folder / "work")


def notes(rendered: Rendered) -> str:
    """Return the notes with each command on one line, with single spaces."""
    return re.sub(r"[ \t]+", " ", (rendered.notes or "").replace("\\\n", " "))


def test_every_helm_command_renders_and_all_layers_are_covered(page: Page) -> None:
    assert {one.layer for one in page.installs} == {*LAYERS}
    assert {one.namespace for one in page.installs} == {"rl"}
    tasks = [one.values["job"]["task"] for one in page.installs if one.values]
    assert [task for task in tasks if task != "prepare-data"] == ["fetch", "convert", "evaluate"]


def test_networks_and_subnets_match_the_network_chart(page: Page) -> None:
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
    made = [each["metadata"]["name"] for each in objects if each["kind"] == "Network"]
    assert [word for word in page.told["networks"].split() if word in made] == [made[0], made[1], made[-1]]


def test_the_node_pool_command_matches_the_network_charts_notes(page: Page) -> None:
    theirs = next(line.strip() for line in notes(page.of("network")).splitlines() if "node-pools create" in line)
    nodes = by_kind(page.of("raycluster").documents, "RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"]
    named = {"POOL": "gpus", "CLUSTER": "$CLUSTER", "LOCATION": "$REGION", "ZONE": "$ZONE", "NODES": str(nodes)}
    for word, name in named.items():
        theirs = re.sub(rf"\b{word}\b", name, theirs)
    assert sorted(page.words("gcloud container node-pools create")) == sorted(shlex.split(theirs))


def test_the_page_has_every_command_the_chart_notes_ask_for(page: Page) -> None:
    said = notes(page.of("storage")) + notes(page.of("network")) + notes(page.of("raycluster"))
    asked = [line.strip() for line in said.splitlines() if re.match(" +(gcloud storage|kubectl|helm install k)", line)]
    buckets = sum(each["kind"] == "PersistentVolume" for each in page.of("storage").documents)
    policies = sum(each["kind"] == "ValidatingAdmissionPolicy" for each in page.of("network").documents)
    account = not any(each["kind"] == "ServiceAccount" for each in page.of("storage").documents)
    assert len(asked) == 9 + policies + 2 * buckets + account
    done = [re.sub(" +", " ", line.partition("  #")[0]) for line in page.lines]
    for command in asked:
        # What storage leaves behind goes with the cluster.
        if re.match("kubectl get (crd|csidriver) ", command) or not command.startswith(
            ("kubectl get", "kubectl delete")
        ):
            assert command.replace("=REGION", "=$REGION") in done, command


def test_cluster_claim_and_test_names_are_those_the_charts_render(page: Page) -> None:
    cluster = by_kind(page.of("raycluster").documents, "RayCluster")["metadata"]["name"]
    assert f"raycluster/{cluster} " in page.command("kubectl wait --for=jsonpath='{.status.state}'")
    asked = [line for line in page.lines if line.startswith("kubectl exec")]
    assert all(f"service/{cluster}-head-svc " in line for line in asked)
    claim = by_kind(page.of("storage").documents, "PersistentVolumeClaim")["metadata"]["name"]
    assert page.command("kubectl get pvc").split()[3] == claim
    account = by_kind(page.of("raycluster").documents, "RayCluster")["spec"]["headGroupSpec"]["template"]["spec"]
    assert page.told["account"] == account["serviceAccountName"]
    test = re.search(r"Test: (helm test .*? --timeout \S+)", notes(page.of("raycluster")))
    assert test
    assert page.command("helm test") == test[1]


def test_jobs_and_directories_match_what_the_charts_render(page: Page) -> None:
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


def test_everything_installed_is_uninstalled(page: Page) -> None:
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
    assert (page.told["head_cores"], page.told["head_memory"]) == (f"{cores:g}", f"{memory:g}Gi")
    disk = [*(one["ephemeral-storage"] for one in asked), sidecar["gke-gcsfuse/ephemeral-storage-limit"]]
    assert int(re.findall("--disk-size=([0-9]+)", create)[0]) > sum(map(words.units, disk)) * 1.0737 + 100


CLOUD = """
platform: {kind: kubernetes}
network: {mode: devices}
storage: {data: {gcsfuse: null, existingClaim: {name: shared}}, weights: null}
huggingface: {cache: {volume: data}}
"""


@pytest.mark.parametrize("machine", thin(["eks-h200", "coreweave-h200", "aks-h200", "infiniband-h100"], 4))
def test_outside_gke_the_page_states_the_node_sizes_the_pods_request(
    machine: str, tmp_path: Path, render: Render
) -> None:
    stack = files(tmp_path, machine, "gemma3-27b-gsm8k", CLOUD)
    text = page_of(stack)
    cluster = by_kind(render("raycluster", files=[ROOT / name for name in stack]), "RayCluster")["spec"]
    groups = (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0])
    head, worker = (each["template"]["spec"]["containers"][0]["resources"]["requests"] for each in groups)
    asked = f"{head['cpu']} cores, {head['memory']} of memory and {head['ephemeral-storage']} of local disk"
    assert f"a node with more than {asked}" in text
    assert f"GPUs and {worker['ephemeral-storage']} of local disk each" in text


def test_no_default_name_remains_after_renaming(tmp_path: Path) -> None:
    text = page_of(files(tmp_path, "h200", "gemma3-27b-gsm8k", OTHER))
    commands = "\n".join(pages.blocks(text, "bash"))
    for old in ("my-project", "my-gvnic", "my-rdma", "my-bucket", "gemma-", "gemma3-gsm8k", "hf-secret", "b200"):
        assert old not in commands.replace("gemma3-27b-gsm8k.yaml", ""), old


def test_the_numbers_on_the_page_are_those_of_the_recipe(tmp_path: Path) -> None:
    fewer = files(tmp_path, "b200", "gemma3-27b-gsm8k", "job: {config: {grpo: {max_num_steps: 40}}}")
    assert numbers(told(fewer)["time"]) == ["20.6", "40", "1850"]
    assert "prepare-data" not in "".join(pages.blocks(page_of(fewer), "bash"))
    older = files(tmp_path, "b200", "gemma3-27b-gsm8k", "ray: {head: {numCpus: 1}}\n")
    text = page_of([*older[:2], "values/frameworks/nemo-rl-v0.5.0.yaml", *older[2:]])
    assert "job.task=prepare-data" in "".join(pages.blocks(text, "bash"))


def test_a_count_of_one_uses_the_singular(tmp_path: Path) -> None:
    single = files(tmp_path, "b200", "gemma3-1b-openmath", "job: {config: {checkpointing: {save_period: 1}}}")
    assert not re.search(r"\b1 (nodes|steps|answers|GPU nodes|checkpoints)\b", " ".join(page_of(single).split()))
    one, two = told(single), told(files(tmp_path, "b200", "gemma3-27b-gsm8k", ""))
    for name in ("nodes", "costly", "ready"):
        assert [bool(re.search(r"\bnodes\b", each[name])) for each in (one, two)] == [False, True], name
    for name in ("costly", "ready"):
        assert [{*each[name].split()} & {"is", "are"} for each in (one, two)] == [{"is"}, {"are"}], name
    assert (numbers(one["saves"]), numbers(one["benchmarks"])[0]) == ([], "1")


def test_sizes_are_rounded_up_and_a_short_run_is_pointed_out(tmp_path: Path) -> None:
    """11 GiB of which a third is weights do not fit into 3."""
    found = told(files(tmp_path, "b200", "gemma3-1b-openmath", ""))
    assert (found["disk"], found["weights"], found["few"]) == ("11", "4", "")
    few = told(files(tmp_path, "b200", "gemma3-1b-openmath", "job: {config: {grpo: {max_num_steps: 10}}}"))
    assert numbers(few["few"]) == ["10"]


def of_b200(steps: int, times: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "accelerator": {"name": "b200"},
        "ray": {"workers": {"replicas": 2}, "head": {"gpus": {"enabled": False}}},
        "job": {
            "framework": "nemo-rl",
            "version": "v0.7.0",
            "config": {"grpo": {"max_num_steps": steps}, "policy": {"model_name": "a/b"}},
            "stepTimes": times,
        },
    }


@pytest.mark.parametrize(
    ("said", "time", "unit"),
    [
        ("about 950 s a step; reward", ["2.6", "10", "950"], "hours"),
        ("not the last. 40 s a step.", ["7", "10", "40"], "minutes"),
        ("10.8 s a step.", ["2", "10", "10.8"], "minutes"),
        ("1024 a step, 512 an update", [], "hours"),
        ("92 s a step on two nodes, less on four", [], "hours"),
    ],
)
def test_times_are_parsed_in_the_form_used_in_recipe_headers(said: str, time: list[str], unit: str) -> None:
    text = f"# a step is about 6 GiB; three.\n#\n# Expected: a reward.\n# {said}\n"
    tree = of_b200(10, {})
    found = training.header(text, tree)
    assert (numbers(found["time"]), training.sizes(text, tree)) == (time, {"disk": "6"})
    assert unit in found["time"].split()


@pytest.mark.parametrize(
    ("times", "steps", "time", "is_anothers"),
    [
        ({"b200": {"seconds": 92.2, "nodes": 2, "source": "run x"}}, 100, ["2.6", "100", "92.2"], False),
        ({"b200": {"seconds": 92.2, "nodes": 2, "source": "run x"}}, 0, ["92.2"], False),
        ({"b200": {"seconds": 92.2, "nodes": 4, "source": "run x"}}, 100, ["4", "92.2"], True),
        ({"b200": {"seconds": 50, "nodes": 2, "source": "mine"}}, 100, ["1.4", "100", "50"], True),
        (None, 100, ["2.6", "100", "92"], True),
        ({"h200": {"seconds": 120, "nodes": 1, "source": "run y"}}, 100, ["1", "120"], True),
        (
            {"b200": {"seconds": 92.2, "nodes": 2, "model": "a/b", "source": ""}},
            100,
            ["2.6", "100", "92.2"],
            False,
        ),
        ({"b200": {"seconds": 50, "nodes": 2, "model": "a/c", "source": ""}}, 100, ["2.6", "100", "92"], True),
        ({"h200": {"seconds": 120, "nodes": 1, "model": "a/c", "source": ""}}, 100, ["2.6", "100", "92"], True),
    ],
)
def test_a_time_measured_on_other_machines_is_labelled(
    times: Mapping[str, Any] | None, steps: int, time: list[str], *, is_anothers: bool
) -> None:
    """The result that a header expects has the times of the machines that its recipe was written for."""
    found = training.header("# Expected: a reward; 92 s a step.\n", of_b200(steps, times))
    assert numbers(found["time"]) == time
    assert all(one["source"] in found["time"] for one in (times or {}).values())
    assert ("machines" in found["time"]) == (time[-1] == "92")
    whose = found["expected"].removeprefix(" Expected").removesuffix(": a reward; 92 s a step.")
    assert bool(whose) == is_anothers


@pytest.mark.parametrize("machine", ["b200", "h200", "aks-gb300"])
@pytest.mark.parametrize("recipe", thin(RECIPES, 3))
def test_the_time_matches_grpo_plan(machine: str, recipe: str) -> None:
    stack = [str(ROOT / f"values/{name}.yaml") for name in (f"accelerators/{machine}", f"recipes/{recipe}")]
    tree = merge.over_defaults(merge.load(stack))
    planned = cost.step_time(RunConfig(tree))
    said = training.header(guide.recipe_of(stack, tree)[1], tree)["time"]
    assert bool(re.search(r"^[^;]* of [0-9.]+ s: ", said)) == bool(planned)
    if planned:
        assert f" of {planned.seconds:g} s: {planned.source})" in said


def test_facts_missing_from_a_header_are_left_out() -> None:
    found = training.header("# Mine.\n", of_b200(0, {}))
    assert found == {"time": "hours", "expected": ""}


def test_an_unknown_template_name_is_refused() -> None:
    text = "{{#flag}}{{one}}{{/flag}}{{^flag}}{{two}}{{/flag}}"
    assert guide.filled(text, {"flag": False}, {"two": "2"}) == "2"
    with pytest.raises(GuideError, match="nothing is called one"):
        guide.filled(text, {"flag": True}, {"two": "2"})
    with pytest.raises(GuideError, match="nothing is called flag"):
        guide.filled(text, {}, {"one": "1", "two": "2"})


def test_every_name_and_flag_is_used_in_a_template() -> None:
    template = "".join((ROOT / name).read_text(encoding="utf-8") for name in tutorial.TEMPLATES.values())
    values = merge.load([str(ROOT / name) for name in tutorial.FILES]).effective()
    tree = merge.overlay(merge.defaults(), values)
    shown = Shown(("f",), "charts", "r", "# a step is about 6 GiB\n")
    found, flags = names.names(tree, shown), names.flags(tree, shown)
    assert [name for name in [*found, *flags] if f"{name}}}}}" not in template] == []


def test_the_page_is_short() -> None:
    text = (ROOT / tutorial.PAGE).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) < 1500
