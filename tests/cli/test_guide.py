"""`grpo guide`: for every recipe a page whose commands render, or one sentence that says which part has no steps."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.helm.engines import Engine
from grpo.manifests.needs import prerequisites
from grpo.manifests.needs.prerequisites import Prerequisites
from grpo.start import guide, training
from postrender.errors import UnreadableError
from postrender.values import merge
from tests.conftest import ACCELERATORS, RECIPES, ROOT, SITE, by_kind, stack_files, thin
from tests.docs import pages

Run = Callable[..., tuple[int, str, str]]
OF_ITS_OWN = "job: {cluster: {mode: ephemeral}}\n"
ARM64 = "images: {training: {arm64: true}}\n"
CLAIM = "storage: {data: {gcsfuse: null, existingClaim: {name: shared}}}\n"
# What a stack can differ in, each as values after the site file.
PLACES = {
    "standard": "",
    "autopilot": "platform: {kind: gke-autopilot}\nray: {head: {ephemeralStorage: 4Gi}}\n",
    "dranet": "network: {mode: dranet}\n",
    "installer": "network: {rdmaInstaller: {enabled: true}}\n",
    "tcp": "network: {mode: none}\n",
    "queue": "ray: {kueue: {queue: gpus}}\n",
    "claim": CLAIM,
    "class": "storage: {data: {gcsfuse: null, pvc: {storageClassName: shared, size: 4000Gi}}}\n",
    "ephemeral": OF_ITS_OWN,
    "ephemeral-claim": OF_ITS_OWN + CLAIM,
    "own": CLAIM,
}
OF_PLACE = {"own": "infiniband-b200"}
_STACK = ("values/accelerators/b200.yaml", "values/recipes/smoke.yaml", "my-site.yaml")
# Recipes that differ most: a head with GPUs, the other framework, and benchmarks.
DIFFERENT = ("qwen3-1.7b-deepscaler", "qwen2.5-32b-gsm8k-verl", "smoke")
CASES = [(machine, recipe, "standard") for recipe in RECIPES for machine in ACCELERATORS]
CASES += [
    (OF_PLACE.get(place, "b200"), recipe, place) for recipe in DIFFERENT for place in PLACES if place != "standard"
]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in a folder that looks like a checkout; return exit code, stdout, stderr."""
    pages.folder_of("", tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the charts need, for tests of other parts of the page: tests/charts/test_needs.py renders."""
    monkeypatch.setattr(prerequisites, "of_stack", lambda *_: Prerequisites())


def stack(machine: str, recipe: str, extra: str) -> list[str]:
    """Write the last file of a stack; return the words of the command line."""
    Path("last.yaml").write_text(extra or "{}\n", encoding="utf-8")
    files = (f"values/accelerators/{machine}.yaml", f"values/recipes/{recipe}.yaml", "my-site.yaml", "last.yaml")
    return [word for file in files for word in ("-f", file)]


def test_a_guide_with_local_paths_says_so(grpo: Run, unrendered: None) -> None:
    files = (ROOT / "values/accelerators/b200.yaml", ROOT / "values/recipes/smoke.yaml", "my-site.yaml")
    code, out, err = grpo("guide", *(word for file in files for word in ("-f", str(file))))
    assert (code, f"helm install gemma-storage {ROOT}/charts/storage " in out) == (0, True)
    assert err == "The paths are those of this machine; for a repository, grpo init --vendor copies the files.\n"


@pytest.mark.parametrize("recipe", ["smoke", "qwen2.5-32b-gsm8k-verl"])
@pytest.mark.parametrize("place", thin([OF_ITS_OWN, "", CLAIM], 3))
def test_the_change_guide_covers_a_run_of_every_kind(recipe: str, place: str, grpo: Run) -> None:
    code, out, err = grpo("guide", "--change", *stack("b200", recipe, place + "job: {attempt: 4}\n" * (not place)))
    assert (code, err) == (0, ""), err
    assert ("## Other pods\n" in out) == (place != OF_ITS_OWN)
    assert ("same number of GPUs" in out) == ("verl" in recipe)
    assert f"attempt: {2 if place else 5}\n" in out
    assert "print it from the files of the run that is installed" in out.replace("\n", " ")
    links = set(re.findall(r"\]\(#([a-z-]+)\)", out))
    assert links <= {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", out, re.MULTILINE)}


NO_STACKS = {
    "no site file": (("values/accelerators/b200.yaml", "values/recipes/smoke.yaml"), "no site file"),
    "no profile": (("values/recipes/smoke.yaml", "my-site.yaml"), "no accelerator profile"),
    "no recipe": (("values/accelerators/b200.yaml", "my-site.yaml"), "no recipe"),
    **{
        name: ((*_STACK, f"{name}.yaml"), f"{name}.yaml:1:")
        for name in ("platform", "network", "job", "storage", "ray", "accelerator")
    },
}  # fmt: skip


@pytest.mark.parametrize(("files", "message"), NO_STACKS.values(), ids=NO_STACKS)
def test_values_that_do_not_describe_a_stack_are_refused(files: tuple[str, ...], message: str, grpo: Run) -> None:
    for name in set(files) - {path for path in files if Path(path).exists()}:
        Path(name).write_text(f"{name.removesuffix('.yaml')}: null\n", encoding="utf-8")
    code, out, err = grpo("guide", *(word for file in files for word in ("-f", file)))
    assert (code, out) == (2, "")
    assert message in err.splitlines()[0]
    assert "\n  fix: " in err


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("flex-start", "--flex-start --num-nodes=0"),
        ("queued", "--reservation-affinity=none --enable-queued-provisioning"),
    ],
)
def test_nodes_that_come_when_machines_are_free_have_steps(kind: str, flags: str, grpo: Run, unrendered: None) -> None:
    extra = f"platform: {{capacity: {{kind: {kind}}}}}\nray: {{kueue: {{queue: gpus}}}}\n"
    code, out, err = grpo("guide", *stack("h200", "smoke", extra))
    assert (code, err) == (0, "")
    assert flags in out
    assert "kubectl get nodes --selector" not in out
    assert "--timeout=24h" in out
    assert "does not sell" not in out


def test_a_machine_that_is_not_sold_on_demand_is_named_before_anything_is_created(grpo: Run, unrendered: None) -> None:
    out = grpo("guide", *stack("h200", "smoke", ""))[1]
    first, _, _ = out.partition("\n## 2. ")
    said = "Google does not sell `a3-ultragpu-8g` on demand, only as `reservation`, `flex-start`, `queued` and `spot`"
    assert said in first.replace("\n", " ")
    assert "does not sell" not in grpo("guide", *stack("h100-mega", "smoke", "network: {mode: none}\n"))[1]


def test_an_unknown_mode_is_refused(grpo: Run) -> None:
    code, out, err = grpo("guide", *stack("b200", "smoke", "network: {mode: 7}\n"))
    assert (code, out) == (2, "")
    assert "last.yaml:1:17: network.mode is 7" in err


def test_a_volume_no_file_describes_is_named(grpo: Run) -> None:
    code, out, err = grpo("guide", *stack("b200", "smoke", "job: {volume: other}\n"))
    assert (code, out) == (2, "")
    assert "storage.other" in err


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(("place", "told"), [("standard", False), ("queue", True)])
def test_a_queue_requires_client_side_apply(place: str, told: bool, grpo: Run) -> None:
    page = grpo("guide", *stack("b200", "smoke", PLACES[place]))[1]
    assert ("`--server-side=false`" in page) == told


@pytest.mark.usefixtures("unrendered")
def test_command_line_values_appear_in_the_guide_and_its_commands(grpo: Run) -> None:
    code, page, err = grpo(
        "guide", *stack("b200", "smoke", PLACES["standard"]), "--set", "job.name=other,job.attempt=7"
    )
    assert (code, err) == (0, "")
    assert "rayjob other-7 " in page
    assert re.search(r"^F=\(.* --set job.name=other,job.attempt=7\)$", page, re.MULTILINE)


@pytest.mark.parametrize(("machine", "recipe", "place"), thin(CASES, 60))
def test_the_guide_of_every_recipe_has_commands_that_render(
    machine: str, recipe: str, place: str, grpo: Run, helm: Engine
) -> None:
    code, text, err = grpo("guide", *stack(machine, recipe, PLACES[place]), "-n", "team-a")
    assert (code, err) == (0, "")
    assert "{{" not in text.replace("{{.", "")
    made, kinds = set(), set()
    for one in pages.installs(text.replace(f"{ROOT}/", ""), Path.cwd()):
        chart = str(ROOT / "charts" / one.layer)
        done = helm.render(chart, one.files, values=one.values, release=one.release, namespace=one.namespace)
        assert one.namespace == "team-a"
        made |= {each["metadata"]["name"] for each in done.documents if each["kind"] == "RayJob"}
        kinds |= {each["kind"] for each in done.documents}
        if one.layer == "network":
            assert done.documents
        if one.values.get("job", {}).get("task") in ("fetch", "prepare-data"):
            (head,) = by_kind(done.documents, "RayJob")["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"][
                "containers"
            ]
            assert "nvidia.com/gpu" not in head["resources"]["requests"]
    assert "RayCluster" in kinds
    assert set(re.findall(r"rayjob[/ ]([\w-]+-[0-9]+)\b", text)) == made
    assert ("gcloud" in text) == (place != "own")
    assert ("networks subnets create" in text) == (place not in ("dranet", "tcp", "own"))
    assert ("node-pools create" in text) == (place not in ("autopilot", "own"))
    assert ("buckets create" in text) == (place not in ("claim", "class", "own", "ephemeral-claim"))


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("place", ["standard", "ephemeral", "ephemeral-claim"])
def test_the_steps_match_the_kind_of_cluster_the_run_uses(place: str, grpo: Run, helm: Engine) -> None:
    """A run with a cluster of its own needs the GPUs that the cluster of the test had, and asks its own head."""
    page = grpo("guide", *stack("b200", "smoke", PLACES[place]))[1].replace(f"{ROOT}/", "")
    lines = list(pages.commands(page))
    training = next(line for line in lines if line.startswith("helm install smoke charts/grpo-job"))
    before, after = lines[: lines.index(training)], lines[lines.index(training) :]
    (one,) = [each for each in pages.installs(page, Path.cwd()) if each.release == "smoke"]
    done = helm.render(str(ROOT / "charts/grpo-job"), one.files, values=one.values, release=one.release)
    ephemeral = place != "standard"
    assert ("rayClusterSpec" in by_kind(done.documents, "RayJob")["spec"]) == ephemeral
    assert ("helm uninstall gemma-ray --namespace rl" in before) == ephemeral
    assert ("helm uninstall gemma-ray --namespace rl" in after) == (not ephemeral)
    # The cluster of the training is gone when the others run.
    assert not ephemeral or not [line for line in after if line.startswith("kubectl exec")]
    assert any(line.startswith("grpo watch smoke-1 ") for line in after)


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(("machine", "name"), [("rtx-pro-6000", "g4-standard-384"), ("h100-mega", "a3-megagpu-8g")])
def test_the_guide_for_machines_without_rdma_has_no_vpcs(machine: str, name: str, grpo: Run) -> None:
    code, text, err = grpo("guide", *stack(machine, "smoke", PLACES["tcp"]))
    assert (code, err) == (0, "")
    assert f"--machine-type={name} " in text
    assert "NCCL uses TCP between nodes" in text.replace("\n", " ")
    assert "networks subnets create" not in text
    assert "charts/network" not in text


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(
    ("machine", "extra", "said"),
    [
        ("coreweave-h200", "", "and `rdma/ib: 1`"),
        *thin(
            [
                ("eks-h200", "network: {mode: dranet}\n", "claims `efa.networking.k8s.aws`"),
                ("eks-h200", "", "and `vpc.amazonaws.com/efa: 16`"),
                ("eks-h200", "network: {mode: none}\n", "Without RDMA, NCCL uses TCP between nodes"),
                ("oci-h200", "", "and `nvidia.com/rdma-vf: 8`"),
            ],
            2,
        ),
        (
            "infiniband-h100",
            "accelerator: {resources: {rdma/rdma_shared_device_a: null}}\n",
            "8 GPUs or more. The chart",
        ),
    ],
)
def test_the_page_says_how_nccl_connects_the_nodes_of_another_cloud(
    machine: str, extra: str, said: str, grpo: Run, helm: Engine
) -> None:
    files = stack(machine, "gemma3-27b-gsm8k", CLAIM + extra)
    page = grpo("guide", *files)[1]
    prose = page.replace("\n", " ")
    assert said in prose
    assert "`docs/howto/clouds.md` lists for your cloud" in prose
    done = helm.render(str(ROOT / "charts/raycluster"), [Path(word) for word in files if word != "-f"], release="ray")
    (group,) = by_kind(done.documents, "RayCluster")["spec"]["workerGroupSpecs"]
    (worker,) = group["template"]["spec"]["containers"]
    net = {one["name"]: one.get("value") for one in worker["env"]}.get("NCCL_NET")
    assert ("NCCL uses TCP between nodes" in prose) == (net is None)
    assert (f"Every worker has `NCCL_NET={net}`" in prose) == (net is not None)
    (check,) = [line for line in pages.commands(page) if line.startswith("kubectl get nodes")]
    asked = [name for name in worker["resources"]["requests"] if "/" in name]
    columns = check.replace("\\", "").partition("custom-columns=")[2].split(",")
    assert [each.partition(":.status.allocatable.")[2] for each in columns[1:]] == asked


@pytest.mark.parametrize(
    ("machine", "extra"),
    thin(
        [
            ("b200", ""),
            ("b200", PLACES["autopilot"]),
            # ConfigMaps, two of one name.
            ("aks-h200", CLAIM + "accelerator: {files: {more: {configMap: nvidia-topology, key: b, mountPath: /b}}}\n"),
            ("aks-h200", CLAIM),
            # The network of the node, without the capability.
            ("oci-b300", CLAIM + "accelerator: {hostNetwork: true, capabilities: {IPC_LOCK: false}}\n"),
            ("eks-b200", CLAIM),
            ("eks-b200", CLAIM + "network: {mode: none}\n"),
            ("aks-h200", CLAIM + "network: {mode: none}\n"),
            # A domain of NVLink, and none.
            ("coreweave-gb200", CLAIM + ARM64),
            ("aks-gb300", CLAIM + ARM64),
            ("coreweave-gb200", CLAIM + ARM64 + "accelerator: {nvlinkDomainNodes: null}\n"),
            ("gb300", CLAIM + ARM64 + "platform: {capacity: {kind: reservation, reservation: blue}}\n"),
        ],
        4,
    ),
)
def test_the_guide_lists_what_the_workers_need_from_the_cluster(
    machine: str, extra: str, grpo: Run, helm: Engine
) -> None:
    """The label where the pods may do more than the level baseline, their ConfigMaps, and the definition of NVLink."""
    files = stack(machine, "llama3.1-8b-math-2n", extra)
    page = grpo("guide", *files, "-n", "team-a")[1]
    prose, lines = page.replace("\n", " "), list(pages.commands(page))
    done = helm.render(
        str(ROOT / "charts/raycluster"),
        [Path(word) for word in files if word != "-f"],
        values={},
        release="gemma-ray",
        namespace="team-a",
    )
    (group,) = by_kind(done.documents, "RayCluster")["spec"]["workerGroupSpecs"]
    pod = group["template"]["spec"]
    locks = "IPC_LOCK" in pod["containers"][0]["securityContext"]["capabilities"]["add"]
    folders = any("hostPath" in each for each in pod["volumes"])
    forbidden = {
        "the driver folders of the node": folders,
        "the capability IPC_LOCK": locks,
        "the network of the node": pod.get("hostNetwork", False),
    }
    said = re.search(r"level `baseline` forbids ([^.]*)\.", prose)
    assert [each for each in forbidden if said and each in said[1]] == [
        each for each, is_so in forbidden.items() if is_so
    ]
    label = "kubectl label namespace team-a pod-security.kubernetes.io/enforce=privileged --overwrite"
    assert (label in lines) == any(forbidden.values())
    mounted = {each["name"]: each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    keys = {
        (mounted[each["name"]], each["subPath"])
        for each in pod["containers"][0]["volumeMounts"]
        if each["name"] in mounted
    }
    made = [shlex.split(line) for line in lines if line.startswith("kubectl create configmap ")]
    assert len({words[3] for words in made}) == len(made)
    assert {
        (words[3], word.split("=")[1]) for words in made for word in words if word.startswith("--from-file=")
    } == keys
    assert all(words[4:6] == ["--namespace", "team-a"] for words in made)
    domains = [each for each in done.documents if each["kind"] == "ComputeDomain"]
    asked = [line.partition("  #")[0] for line in lines]
    assert ("kubectl get crd computedomains.resource.nvidia.com" in asked) == bool(domains)
    assert ("NVIDIA's DRA driver" in prose) == bool(domains)


@pytest.mark.parametrize("place", thin(list(PLACES), len(PLACES)))
def test_the_page_is_well_formed(place: str, grpo: Run) -> None:
    """Bash reads its blocks, its steps are counted, and no line of prose is wider than a screen."""
    _, text, _ = grpo("guide", *stack("b200", "qwen2.5-32b-gsm8k-verl", PLACES[place]))
    for block in pages.blocks(text, "bash"):
        done = subprocess.run(
            [shutil.which("bash") or "", "-n"], input=block, text=True, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), block
    numbers = [int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert numbers == [*range(1, len(numbers) + 1)]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "\n\n\n" not in text
    assert "](" not in prose
    assert max(map(len, re.sub(r"`[^`]*`|^- .*$", "", prose, flags=re.MULTILINE).splitlines())) <= 120


OWN_DATA = """
job:
  config:
    data:
      train: {dataset_name: ResponseDataset, data_path: /data/mine/a.jsonl, input_key: q, output_key: a}
      validation: {dataset_name: ResponseDataset, data_path: /data/mine/b.jsonl, input_key: q, output_key: a}
"""


def test_the_users_data_is_neither_fetched_nor_prepared(grpo: Run) -> None:
    """Also where the recipe has no comment at its top, so that its first key is on line 1."""
    recipe = (ROOT / "values/recipes/gemma3-27b-gsm8k.yaml").read_text(encoding="utf-8")
    Path("mine.yaml").write_text(recipe[recipe.index("\nimages:") + 1 :], encoding="utf-8")
    words = stack("b200", "smoke", OWN_DATA)
    words[3] = "mine.yaml"
    code, page, err = grpo("guide", *words)
    assert (code, err) == (0, "")
    prose, lines = page.replace("\n", " "), list(pages.commands(page))
    assert "recipe `mine`" in prose
    (fetch,) = [line for line in lines if "job.task=fetch" in line]
    assert shlex.split(fetch)[-2:] == ["--set", "job.fetch.datasets.openai/gsm8k=null"]
    (one,) = [each for each in pages.installs(page.replace(f"{ROOT}/", ""), Path.cwd()) if "fetch" in each.release]
    assert one.values["job"]["fetch"] == {"datasets": {"openai/gsm8k": None}}
    assert "downloads google/gemma-3-27b-it into" in prose
    assert "job.task=prepare-data" not in page
    assert "the training reads files of your own" in prose
    assert "NeMo RL runs up to 10 steps, and fewer where the rows" in prose
    assert "No task makes `/data/mine/a.jsonl` and `/data/mine/b.jsonl`, which the training reads." in prose
    assert "grpo upload a.jsonl" not in page


@pytest.mark.parametrize("offline", [False, True])
def test_the_download_token_is_created_for_an_offline_stack_too(offline: bool, grpo: Run) -> None:
    extra = "huggingface: {offline: {enabled: true}}\njob: {evaluate: {benchmarks: {math500: null}}}\n"
    code, page, err = grpo("guide", *stack("b200", "llama3.1-8b-math-2n", extra if offline else ""))
    assert (code, err) == (0, "")
    assert not re.search(r"[^ ]  +[^ ]", re.sub(r"^(```.*?^```|[ |-].*)", "", page, flags=re.DOTALL | re.MULTILINE))
    (line,) = [each for each in pages.commands(page) if each.startswith("kubectl create secret generic hf-secret")]
    assert "--from-file=hf_api_token=" in line


OTHER_MODEL = "job: {config: {policy: {model_name: Qwen/Qwen3-14B}}, fetch: {models: {Qwen/Qwen3-14B: {}}}}\n"


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(
    ("recipe", "extra", "said", "unsaid"),
    [
        # 14.77 billion parameters of 12 bytes; safetensors need no memory of the head.
        ("llama3.1-8b-math-2n", OTHER_MODEL, ("165 GiB per checkpoint", "piece by piece"), ("90 GiB", "s a step")),
        ("gemma3-27b-gsm8k", OTHER_MODEL, ("165 GiB per checkpoint", "about 56 GiB"), ("307 GiB", "103 GiB")),
        ("llama3.1-8b-math-2n", "", ("90 GiB per checkpoint", "reward about 0.36", "92.2 s"), ("56 GiB",)),
        # verl loads float32 before it writes bfloat16.
        ("qwen2.5-32b-gsm8k-verl", "", ("366 GiB per checkpoint", "about 123 GiB"), ("piece by piece",)),
        # Adapters are smaller by an amount that nobody has said.
        (
            "llama3.1-8b-math-2n",
            "job: {config: {policy: {dtensor_cfg: {lora_cfg: {enabled: true, dim: 8, alpha: 32}}}}}\n",
            ("the checkpoints, and the model",),
            ("90 GiB",),
        ),
        ("gemma3-27b-gsm8k", OTHER_MODEL.replace("Qwen3-14B", "Nobodys"), ("the checkpoints, and",), ("GiB per",)),
    ],
)
def test_text_about_the_model_matches_the_run(
    recipe: str, extra: str, said: tuple[str, ...], unsaid: tuple[str, ...], grpo: Run
) -> None:
    code, page, err = grpo("guide", *stack("b200", recipe, extra))
    assert (code, err) == (0, "")
    prose = page.replace("\n", " ")
    assert [each for each in said if each not in prose] == []
    assert [each for each in unsaid if each in prose] == []
    assert ("Expected" in prose) == ("14B" not in extra and "Nobodys" not in extra)


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("extra", [OWN_DATA, "job: {rewards: {mine: {file: 'def reward(): 1'}}}\n"])
def test_a_recipes_result_is_not_promised_for_other_data_or_rewards(extra: str, grpo: Run) -> None:
    page = grpo("guide", *stack("b200", "gemma3-1b-openmath", extra))[1]
    assert "Expected" not in page
    assert "11 GiB" in page


@pytest.mark.parametrize("folder", thin(["answers", ""], 2))
def test_the_users_data_is_uploaded_after_the_cluster_is_up(folder: str, grpo: Run) -> None:
    own = OWN_DATA.replace("/data/mine/", f"/data/datasets/{folder}/" if folder else "/data/datasets/")
    _, page, _ = grpo("guide", *stack("b200", "smoke", own), "-n", "team")
    lines = list(pages.commands(page))
    (at,) = [number for number, line in enumerate(lines) if line.startswith("grpo upload")]
    to = f" --to {folder}" if folder else ""
    assert f'\ngrpo upload a.jsonl b.jsonl "${{F[@]}}" --namespace team{to}\n' in page
    assert "give the paths of these files on your machine" in page.replace("\n", " ")
    test = next(number for number, line in enumerate(lines) if line.startswith("helm test"))
    train = next(number for number, line in enumerate(lines) if "get rayjob" in line and "--watch" in line)
    assert test < at < train
    _, page, _ = grpo("guide", *stack("b200", "smoke", f"{own}  cluster: {{mode: ephemeral}}\n"))
    assert not any(line.startswith("grpo upload") for line in pages.commands(page))


@pytest.mark.parametrize(
    ("model", "data", "downloads"),
    [
        ("google/gemma-3-27b-it", {}, "google/gemma-3-27b-it and openai/gsm8k"),
        # The task fetches the model that is trained too, and no folder.
        ("Qwen/Qwen3-4B", {}, "google/gemma-3-27b-it, Qwen/Qwen3-4B and openai/gsm8k"),
        ("/data/models/mine", {}, "google/gemma-3-27b-it and openai/gsm8k"),
        # A data set that no framework loads by name may be for the user's own code.
        ("google/gemma-3-27b-it", {"me/words": {}}, "google/gemma-3-27b-it, openai/gsm8k and me/words"),
    ],
)
def test_the_listed_downloads_are_those_of_the_fetch_task(model: str, data: dict[str, Any], downloads: str) -> None:
    tree = merge.over_defaults(merge.load([str(file) for file in stack_files()]))
    tree["job"]["config"]["policy"]["model_name"] = model
    tree["job"]["fetch"]["datasets"] |= data
    assert training.settings(tree, {})["downloads"] == downloads


@pytest.mark.parametrize(
    ("first", "is_recipe"),
    [
        ("images: {training: {rayVersion: 2.54.0}}\n", True),
        ("# A time: 12 s a step.\n---\njob: {version: v0.7.0}\n", True),
        ('{"images": {"training": {"rayVersion": "2.54.0"}}}\n', True),
        # A site file may name an image of its own.
        ("stack: {name: a}\nimages: {training: {repository: mine}}\n", False),
        ("# The line after this one would be\n# images:\nstack: {name: a}\n", False),
    ],
)
def test_a_file_counts_as_a_recipe_if_it_says_what_is_trained(first: str, is_recipe: bool, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(first, encoding="utf-8")
    files = [str(tmp_path / "a.yaml"), str(stack_files()[1])]
    found, comment = guide.recipe_of(files, merge.over_defaults(merge.load(files)))
    assert found == files[0 if is_recipe else 1]
    assert not is_recipe or comment.splitlines() == [line for line in first.splitlines() if line[0] in "#-"]


@pytest.mark.usefixtures("unrendered")
def test_the_naming_step_ends_with_the_last_line_lint_prints(grpo: Run) -> None:
    """On EKS a warning stays until somebody has built an image, and the last line is no other."""
    files = stack("eks-h200", "gemma3-27b-gsm8k", CLAIM)
    page = grpo("guide", *files)[1].replace("\n", " ")
    code, _, err = grpo("lint", *files)
    said = re.search(r"Go on when there is no error\. The last line then begins with (.*?) below warnings", page)
    assert said
    assert code == 0
    assert f"`{err.splitlines()[-1].partition(':')[0]}`" in said[1]


@pytest.mark.usefixtures("unrendered")
def test_the_guide_uses_the_names_of_the_stack(grpo: Run) -> None:
    code, text, _ = grpo("guide", "--accelerator", "h200", "-f", "values/recipes/smoke.yaml", "-f", "my-site.yaml")
    assert code == 0
    assert "F=(-f " in text
    assert "values/accelerators/h200.yaml -f values/recipes/smoke.yaml -f my-site.yaml)" in text
    assert "gs://acme-rl-runs" in text
    assert "cp values/examples" not in text


@pytest.mark.parametrize(
    ("machine", "extra", "sentence"),
    [
        ("gb200", "", "the RDMA networks of gb200"),
        ("cpu", "", "accelerator cpu, which has no GPUs"),
        ("b200", "platform: {capacity: {kind: queued}}", "platform.capacity.kind queued"),
        ("b200", "ray: {head: {cpu: '90'}}", "a head of 92 cores"),
        ("b200", "job: {task: clean}", "job.task clean"),
        ("b200", "stack: {wiring: {enabled: false}}", "stack.wiring.enabled false"),
        (
            "b200",
            "storage: {data: {gcsfuse: null, existingClaim: {name: x, gcsfuse: {enabled: true}}}}",
            "storage.data of this kind",
        ),
    ],
)
def test_a_part_without_steps_is_reported(machine: str, extra: str, sentence: str, grpo: Run) -> None:
    code, out, err = grpo("guide", *stack(machine, "gemma3-27b-gsm8k", extra))
    assert (code, out) == (2, "")
    assert err.startswith("the guide has no steps for ")
    assert sentence in err
    assert "\n  fix: " in err


@pytest.mark.parametrize(
    ("machine", "extra", "said"),
    [
        ("coreweave-h200", "platform: {kind: gke-standard}\n", "platform.kind gke-standard does not work on h200"),
        ("coreweave-h200", "network: {mode: multiNetwork}\n", "network.mode is multiNetwork, but"),
    ],
)
def test_a_site_file_of_another_cloud_is_refused_at_its_line(machine: str, extra: str, said: str, grpo: Run) -> None:
    code, out, err = grpo("guide", *stack(machine, "gemma3-27b-gsm8k", CLAIM + extra))
    assert (code, out) == (2, "")
    assert err.startswith("last.yaml:2:")
    assert said in err
    assert "\n  fix: " in err


def test_errors_in_the_files_are_reported(grpo: Run) -> None:
    assert grpo("guide")[0] == 2
    code, _, err = grpo("guide", "-f", "nowhere.yaml")
    assert code == UnreadableError.exit_code
    assert "nowhere.yaml" in err
    code, _, err = grpo("guide", "--accelerator", "b200", "-f", str(SITE))
    assert code == 2
    assert "no recipe: none of the values files says what is trained" in err


@pytest.mark.usefixtures("unrendered")
def test_the_checkpoints_are_counted_or_said_not_to_be(grpo: Run, tmp_path: Path) -> None:
    claim = "storage: {data: {gcsfuse: null, pvc: {storageClassName: fsx-sc, size: 1200Gi}}}\n"
    own = "job: {config: {data: {train_files: /data/a/train.parquet}}}\n"
    words = stack("eks-h200", "qwen2.5-32b-gsm8k-verl", claim + own)
    code, text, err = grpo("guide", *words)
    assert code == 0, err
    assert "checkpoints, 366 GiB each. How many there are" in " ".join(text.split())
    assert "not judged whether the volume holds them" in " ".join(text.split())
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n' * 2560)
    _, text, _ = grpo("guide", *words, "--data", "train=train.jsonl")
    said = (
        "Of these, 2 lie there at the same time: 733 GiB. FSx for Lustre has 1200 GiB or multiples of 2400 GiB: 1200Gi"
    )
    assert f"{said} holds" in " ".join(text.split())


@pytest.mark.usefixtures("unrendered")
def test_the_page_for_eks_names_what_its_nodes_need(grpo: Run) -> None:
    _, text, _ = grpo("guide", *stack("eks-h200", "qwen2.5-32b-gsm8k-verl", CLAIM))
    for each in ("docs/howto/efa.md", "docs/howto/eks-storage.md", "aws-efa-k8s-device-plugin", "EFA interfaces"):
        assert each in " ".join(text.split())
    _, text, _ = grpo("guide", *stack("coreweave-h200", "qwen2.5-32b-gsm8k-verl", CLAIM))
    assert "efa.md" not in text
