"""`grpo init`: what it asks, what it writes, and that what it writes is clean."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.cli import main as cli
from grpo.helm.engines import Engine
from grpo.lint import linter, placeholders
from grpo.lint.linter import lint
from grpo.manifests.needs import commands, needed
from grpo.report import text as report_text
from grpo.start import own_recipe, questions, recipes, site_file
from grpo.start.interview import Interview
from grpo.start.recipes import Choice
from postrender import paths, textfile
from postrender.errors import UsageError
from tests import options
from tests.cli.test_terminal import environment
from tests.conftest import ROOT, thin
from tests.docs import pages
from tests.postrender.test_secrets import EXAMPLES

Run = Callable[..., tuple[int, str, str]]
PROJECT = ("--project", "acme-rl", "--project-number", "482915073164")
NAMES = (*PROJECT, "--bucket", "acme-rl-runs")
GIVEN = {"project": "acme-rl", "project-number": "482915073164", "bucket": "acme-rl-runs"}
TRACKERS = ("tensorboard", "wandb", "mlflow")
SHIPPED = recipes.shipped()
# Machines of arm64 need another image than any recipe has.
MACHINES = [name for name in questions.machines() if options.machines()[name].get("architecture") != "arm64"]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in a folder that looks like a checkout; return exit code, stdout, stderr."""
    for name in ("values", "charts"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["init", *words])
        return code, *capsys.readouterr()

    return run


def written(name: str = "my-site.yaml") -> Any:
    return yaml.safe_load(Path(name).read_text(encoding="utf-8"))


def leaves(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    else:
        yield str(tree)


def test_init_writes_and_lints_the_files_and_prints_the_commands(grpo: Run, helm: Engine) -> None:
    code, out, err = grpo("--yes", "--accelerator", "b200", "--recipe", "gemma3-27b-gsm8k", *NAMES, "-n", "team-a")
    assert code == 0
    assert "\nclean: 3 files, 4 charts, " in err
    assert "default: --stack gemma3-27b-gsm8k\n" in err
    assert "written: my-site.yaml\n" in err
    assert written()["storage"] == {
        "data": {"mountPath": "/data", "gcsfuse": {"bucket": "acme-rl-runs", "purpose": "checkpoints"}},
        "weights": {"mountPath": "/weights", "gcsfuse": {"bucket": "acme-rl-runs-weights", "purpose": "weights"}},
    }
    assert written()["huggingface"]["cache"] == {"volume": "weights"}
    installs = list(pages.installs(f"```bash\n{out}```\n".replace(f"{ROOT}/", ""), Path.cwd()))
    assert [(one.layer, one.release) for one in installs] == [
        ("network", "gemma3-27b-gsm8k-network"),
        ("storage", "gemma3-27b-gsm8k-storage"),
        ("raycluster", "gemma3-27b-gsm8k-ray"),
        ("grpo-job", "gemma3-gsm8k"),
    ]
    objects = []
    for one in installs:
        done = helm.render(
            str(ROOT / "charts" / one.layer), one.files, values={}, release=one.release, namespace=one.namespace
        )
        assert done.documents
        objects += done.documents
        assert one.namespace == "team-a"
    lines = [line.partition("  #")[0] for line in out.splitlines()]
    needs = needed.needs(objects, "team-a")
    assert [lines.count(commands.command(each)) for each in needs] == [1] * len(needs)
    assert sum(line.startswith("kubectl") for line in lines) == len(needs) + 1
    assert "my-guide.md also has the operator, what the namespace needs, the download and the tests" in out
    assert "kubectl create secret generic hf-secret --namespace team-a --from-file=hf_api_token=HF_TOKEN_FILE\n" in out
    done = subprocess.run(["bash", "-n"], input=out.partition("Next:")[2], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # The comments are those of the schema.
    text = Path("my-site.yaml").read_text(encoding="utf-8")
    assert "      # Name of the bucket, without gs://.\n      bucket: acme-rl-runs\n" in text
    assert "    # Key inside the Secret.\n    key: hf_api_token\n" in text
    assert " Source:" not in text
    command = "#   -f accelerators/b200.yaml -f recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml\n"
    assert command in text.replace(f"{ROOT}/", "").replace("values/", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--capacity", "reservation", "--reservation", "blue"), {"kind": "reservation", "reservation": "blue"}),
        (("--capacity", "spot"), {"kind": "spot"}),
        ((), None),
    ],
)
def test_a_site_file_says_how_machines_are_bought_that_are_not_sold_on_demand(
    words: tuple[str, ...], expected: Any, grpo: Run
) -> None:
    grpo("--yes", "--accelerator", "h200", "--recipe", "smoke", *NAMES, *words)
    assert written()["platform"].get("capacity") == expected


@pytest.mark.parametrize(
    ("words", "section", "expected"),
    thin(
        [
            (("--accelerator", "aks-h200", "--claim", "shared"), "platform", {"kind": "kubernetes"}),
            (("--accelerator", "coreweave-h200", "--claim", "shared"), "network", {"mode": "devices"}),
            (
                ("--accelerator", "infiniband-h200", "--storage-class", "nfs", "--storage-size", "4000Gi"),
                "storage",
                {"data": {"mountPath": "/data", "pvc": {"storageClassName": "nfs", "size": "4000Gi"}}},
            ),
            (("--platform", "gke-autopilot", *NAMES), "network", None),
            (("--network", "dranet", *NAMES), "network", {"mode": "dranet"}),
            (("--tracking", "none", *NAMES), "tracking", {name: {"enabled": False} for name in TRACKERS}),
            (("--tracking", "wandb", *NAMES), "tracking", None),
            (("--tracking", "wandb", *NAMES, "--run", "first"), "job", {"name": "first"}),
            (("--tracking", "mlflow", "--mlflow-uri", "http://mlflow:5000", *NAMES), "tracking", None),
            (("--framework-version", "v0.5.0", *NAMES), "stack", {"name": "smoke"}),
            (
                ("--project", "acme-rl", "--claim", "shared"),
                "platform",
                {"kind": "gke-standard", "projectId": "acme-rl"},
            ),
        ],
        4,
    ),
)  # fmt: skip
def test_a_stack_of_each_kind_is_clean(words: tuple[str, ...], section: str, expected: Any, grpo: Run) -> None:
    code, out, err = grpo("--yes", "--accelerator", "h200", "--recipe", "smoke", *words)
    assert (code, out.partition("\n")[0]) == (0, ""), out
    assert "\nclean: " in err
    assert expected is None or written()[section] == expected
    assert not [leaf for leaf in leaves(written()) if placeholders.is_placeholder(leaf)]


@pytest.mark.parametrize(("machine", "recipe"), thin([(m, r.name) for m in MACHINES for r in SHIPPED], 37))
def test_the_site_file_of_every_machine_and_recipe_is_clean(machine: str, recipe: str, tmp_path: Path) -> None:
    is_elsewhere = "gke-standard" in options.machines()[machine].get("refuses", {})
    given = {"claim": "shared"} if is_elsewhere else GIVEN
    interview = Interview({**given, "accelerator": machine, "recipe": recipe}, None)
    choice = interview.run()
    assert choice is not None
    assert interview.missing == []
    site = tmp_path / "site.yaml"
    site.write_text(site_file.text(interview.answers, schema="s", files=["x"]), encoding="utf-8")
    found = linter.lint(
        [str(ROOT / f"values/accelerators/{machine}.yaml"), str(ROOT / f"values/recipes/{recipe}.yaml"), str(site)]
    )
    # No public image is known to hold the plugin for EFA.
    assert [finding.what for finding in found if finding.rule != "clouds/image-without-efa"] == []
    assert max(map(len, site.read_text(encoding="utf-8").splitlines())) <= 120


@pytest.mark.parametrize("platform", thin(["gke-standard", "gke-autopilot"], 2))
def test_the_values_block_in_the_docs_moves_a_site_file_to_another_cloud(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interview = Interview({**GIVEN, "accelerator": "b200", "recipe": "gemma3-27b-gsm8k", "platform": platform}, None)
    interview.run()
    page = (ROOT / "docs/howto/clouds.md").read_text(encoding="utf-8")
    block = next(each for each in pages.blocks(page, "yaml") if each.startswith("# my-cluster.yaml\n"))
    files = [str(ROOT / "values/accelerators/coreweave-h200.yaml"), str(ROOT / "values/recipes/gemma3-27b-gsm8k.yaml")]
    for name, text in (
        ("site.yaml", site_file.text(interview.answers, schema="s", files=["x"])),
        ("my-cluster.yaml", block),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        files.append(str(tmp_path / name))
    assert cli.main(["lint", *(word for file in files for word in ("-f", file))]) == 0
    assert capsys.readouterr().err.startswith("clean: 4 files, 4 charts, ")


@pytest.mark.parametrize("recipe", SHIPPED, ids=[recipe.name for recipe in SHIPPED])
def test_a_derived_recipe_differs_only_in_the_model_name(recipe: recipes.Recipe) -> None:
    text = own_recipe.text(Choice(recipe, "acme/Own-9B", "you named it"), "s.json")
    before, after = yaml.safe_load(Path(recipe.path).read_text(encoding="utf-8")), yaml.safe_load(text)
    models = before["job"]["fetch"].get("models")
    if models:
        before["job"]["fetch"]["models"] = {"acme/Own-9B": {"revision": "main"}}
    config = before["job"]["config"]
    if recipe.framework == "verl":
        config["actor_rollout_ref"]["model"]["path"] = "acme/Own-9B"
    else:
        config["policy"]["model_name"] = "acme/Own-9B"
    before["job"]["name"] = f"own-9b-{recipe.data}".lower()
    # In W&B the run has the name of its job.
    before.get("tracking", {}).get("wandb", {}).pop("name", None)
    # Nobody has timed a step of it.
    before["job"].pop("stepTimes", None)
    assert after == before
    assert recipe.model not in text.partition("\nimages:")[2]
    header = text.partition("\nimages:")[0]
    assert f"{recipe.model} → acme/Own-9B" in header.replace("\n# ", " ")
    assert max(map(len, header.splitlines())) <= 140
    assert all(line.startswith("#") or not line for line in header.splitlines())


@pytest.mark.parametrize(("model", "thinks"), [("Qwen/Qwen3-8B", True), ("Qwen/Qwen3-8B-Base", False)])
def test_a_recipe_says_that_the_model_thinks(model: str, thinks: bool) -> None:
    for framework, key in (
        ("nemo-rl", "policy.tokenizer.chat_template_kwargs"),
        ("verl", "apply_chat_template_kwargs"),
    ):
        text = own_recipe.text(recipes.nearest(model, framework, "gsm8k"), "")
        assert (f"{key}: {{enable_thinking: false}}" in " ".join(text.replace("#", " ").split())) == thinks


def test_a_model_of_the_same_size_is_not_called_larger() -> None:
    recipe = next(each for each in recipes.shipped() if each.model == "Qwen/Qwen2.5-1.5B")
    told = own_recipe.scale(Choice(recipe, "Qwen/Qwen2.5-1.5B-Instruct", ""))
    assert told == "Qwen/Qwen2.5-1.5B-Instruct is about as large as Qwen/Qwen2.5-1.5B"


def test_a_model_without_a_recipe_gets_the_nearest_one(grpo: Run) -> None:
    code, _, err = grpo(
        "--yes", "--accelerator", "b200", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "gsm8k", *NAMES
    )
    assert (code, "clean: 3 files" in err) == (0, True)
    name = "qwen2-5-7b-instruct-gsm8k-recipe.yaml"
    assert f"written: {name}\n" in err
    assert "1.1 times smaller than meta-llama/Llama-3.1-8B-Instruct" in err
    assert written(name)["job"]["config"]["policy"]["model_name"] == "Qwen/Qwen2.5-7B-Instruct"
    assert written(name)["job"]["name"] == "qwen2-5-7b-instruct-gsm8k"
    assert "job" not in written()


OWN_DATA = "job: {config: {data: {train: {dataset_name: ResponseDataset, data_path: /data/mine/train.jsonl}%s}}%s}\n"


@pytest.mark.parametrize(
    ("more", "rewards", "expected"),
    [
        ("", "", {"job/prompt-not-chosen", "job/reward-not-chosen"}),
        (", default: {prompt_file: null}", ", rewards: {right: {builtin: exact_answer}}", set()),
        pytest.param(
            ", default: {prompt_file: examples/prompts/cot.txt, env_name: math}", "", set(), marks=pytest.mark.full
        ),
    ],
)
def test_settings_of_a_derived_recipe_are_not_a_choice_for_the_users_data(
    more: str, rewards: str, expected: set[str], grpo: Run
) -> None:
    grpo("--yes", "--accelerator", "b200", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "gsm8k", *NAMES)
    Path("my-data.yaml").write_text(OWN_DATA % (more, rewards))
    files = (ROOT / "values/accelerators/b200.yaml", "qwen2-5-7b-instruct-gsm8k-recipe.yaml", "my-site.yaml")
    found = lint([*map(str, files), "my-data.yaml"])
    assert {each.rule for each in found if each.rule.endswith("-not-chosen")} == expected


def test_a_reward_from_the_recipe_is_not_a_choice_for_the_users_data(grpo: Run) -> None:
    grpo("--yes", "--accelerator", "b200", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "gsm8k", *NAMES)
    recipe = Path("qwen2-5-7b-instruct-gsm8k-recipe.yaml")
    recipe.write_text(
        recipe.read_text().replace("\njob:\n", "\njob:\n  rewards: {right: {builtin: exact_answer}}\n", 1)
    )
    Path("my-data.yaml").write_text(OWN_DATA % (", default: {prompt_file: null}", ""))
    files = [str(ROOT / "values/accelerators/b200.yaml"), str(recipe), "my-site.yaml", "my-data.yaml"]
    (found,) = [each for each in lint(files) if each.rule == "job/reward-not-chosen"]
    assert "job.rewards.right is that of the recipe, and it scores the answers to" in found.what
    Path("my-data.yaml").write_text(OWN_DATA % (", default: {prompt_file: null}", ", rewards: {right: {weight: 1}}"))
    assert [each for each in lint(files) if each.rule == "job/reward-not-chosen"] == []


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("acme/Own_2.5-7B", "own-2-5-7b-gsm8k"),
        ("01-ai/34B-Chat", "b-chat-gsm8k"),
        ("acme/A-very-long-name-of-a-m_-7B", "a-very-long-name-of-a-m-7b-gsm8k"),
        ("acme/A-very-long-name-of-a-model-7B", "a-very-long-name-of-a-model-7b-g"),
        ("acme/A-very-long-name-of-a-big-model", "a-very-long-name-of-a-big-model"),
    ],
)
def test_every_model_gives_a_run_name_the_schema_allows(model: str, name: str) -> None:
    choice = recipes.nearest(model, "nemo-rl", "gsm8k")
    assert (choice.stack, choice.run) == (name, name)
    for question in questions.SITE:
        assert question.name not in ("stack", "run") or not question.refusal(name, {})


@pytest.mark.parametrize(
    ("model", "framework", "data", "recipe", "why"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "nemo-rl", "gsm8k", "llama3.1-8b-math-gsm8k", "7.6 billion"),
        ("Qwen/Qwen2.5-32B", "nemo-rl", "gsm8k", "gemma3-27b-gsm8k", "32.8 billion"),
        ("acme/Own-1.2B", "nemo-rl", "OpenMathInstruct-2", "gemma3-1b-openmath", "1.2 billion"),
        ("acme/Own", "nemo-rl", "gsm8k", "gemma3-27b-gsm8k", "size of acme/Own is not known"),
        ("acme/Own-7B", "verl", "gsm8k", "qwen2.5-32b-gsm8k-verl", "7.0 billion"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "nemo-rl", "gsm8k", "smoke", "it trains this model"),
        ("meta-llama/Llama-3.1-8B-Instruct", "nemo-rl", "OpenMathInstruct-2", "llama3.1-8b-math-2n", "it trains"),
        ("acme/Own-0.5B", "nemo-rl", "gsm8k", "llama3.1-8b-math-gsm8k", "0.5 billion"),
    ],
)
def test_the_nearest_recipe_is_chosen_by_size(model: str, framework: str, data: str, recipe: str, why: str) -> None:
    choice = recipes.nearest(model, framework, data)
    assert choice.recipe.name == recipe
    assert why in choice.why
    assert choice.own == (choice.recipe.model != model)


@pytest.mark.parametrize(
    ("model", "framework", "data", "said"),
    [
        (
            "Qwen/Qwen2.5-32B-Instruct",
            "nemo-rl",
            "gsm8k",
            "recipe qwen2.5-32b-gsm8k-verl trains this model with verl: --framework verl",
        ),
        (
            "google/gemma-3-1b-it",
            "nemo-rl",
            "gsm8k",
            "recipe gemma3-1b-openmath trains this model on OpenMathInstruct-2: --dataset OpenMathInstruct-2",
        ),
        (
            "google/gemma-3-1b-it",
            "verl",
            "gsm8k",
            "recipe gemma3-1b-openmath trains this model with nemo-rl on OpenMathInstruct-2:"
            " --framework nemo-rl --dataset OpenMathInstruct-2",
        ),
        ("google/gemma-3-27b-it", "nemo-rl", "gsm8k", ""),
        ("acme/Own-7B", "nemo-rl", "gsm8k", ""),
    ],
)
def test_another_recipe_that_trains_the_same_model_is_named(model: str, framework: str, data: str, said: str) -> None:
    assert recipes.elsewhere(recipes.nearest(model, framework, data)) == said


def test_init_names_another_recipe_that_trains_the_same_model(grpo: Run) -> None:
    _, _, err = grpo(
        "--yes", "--accelerator", "b200", "--model", "Qwen/Qwen2.5-32B-Instruct", "--dataset", "gsm8k", *NAMES
    )
    assert "\nrecipe qwen2.5-32b-gsm8k-verl trains this model with verl: --framework verl\n" in err


def test_the_size_of_a_model_can_be_given(grpo: Run) -> None:
    Path("config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 2048, "num_attention_heads": 16,'
        ' "num_hidden_layers": 24, "intermediate_size": 8192}'
    )
    words = ("--yes", "--accelerator", "b200", "--model", "acme/sized", "--dataset", "OpenMathInstruct-2", *NAMES)
    code, _, err = grpo(*words, "--model-config", "config.json")
    assert (code, "1.7 billion parameters" in err) == (0, True), err
    assert grpo("--yes", "--model-config", "config.json", "--output", "b.yaml")[0] == 2


# What is wrong with a command line, and what the message says.
WRONG = {
    "nothing": ((), "--accelerator, --recipe or --model, --project, --project-number, --bucket are missing"),
    "no names": (("--accelerator", "b200", "--recipe", "smoke"), "--project, --project-number, --bucket are missing"),
    "size": (("--accelerator", "eks-h200", "--storage-class", "nfs"), "--storage-size are missing"),
    "machine": (("--accelerator", "b20"), "--accelerator: no accelerator profile is called 'b20'"),
    "suggestion": (("--accelerator", "b20"), "did you mean b200?"),
    "capitals": (("--accelerator", "B200"), "eks-b200 (p6-b200.48xlarge), "),
    "another machine": (("--accelerator", "H100"), "'H100' is a GPU, and these profiles have it: aks-h100 ("),
    "no GPUs": (("--accelerator", "cpu"), "--accelerator: 'cpu' is not one of"),
    "recipe": (("--recipe", "smok"), "did you mean smoke?"),
    "recipe's file": (("--recipe", "values/recipes/smoke.yaml"), "; give its name, smoke"),
    "recipe or model": (("--recipe", "acme/model"), "--recipe: 'acme/model' is not one of the recipes gemma"),
    "model": (("--model", "/data/mine"), "--model: '/data/mine' is not OWNER/NAME"),
    "model or recipe": (("--model", "smoke"), "--model: 'smoke' is not OWNER/NAME of a model"),
    "data": (("--model", "a/b-7B", "--dataset", "mine"), "--dataset: 'mine' is not one of DeepScaler, OpenMath"),
    "own data": (("--model", "a/b-7B", "--dataset", "mine"), "name your file in the values: docs/howto/own-data.md"),
    "placeholder": (("--recipe", "smoke", "--project", "my-project"), "--project: my-project is the placeholder"),
    "pattern": (("--recipe", "smoke", "--stack", "My_Stack"), "'My_Stack' does not fit: write for instance my-run. "),
    "quantity": (("--recipe", "smoke", *PROJECT[:2], "--storage-class", "a", "--storage-size", "9"), "instance 900Gi"),
    "bytes": (("--recipe", "smoke", *PROJECT[:2], "--storage-class", "a", "--storage-size", "4TB"), "mean 4Ti?"),
    "number": (("--recipe", "smoke", *PROJECT[:3], "acme"), "'acme' does not fit: write for instance"),
    "too long": (("--recipe", "smoke", "--run", "r" * 33), "is longer than 32 characters. Name of the run"),
    "not here": (
        ("--recipe", "smoke", "--accelerator", "aks-h200", "--claim", "c", "--bucket", "b-1"),
        "init: --bucket: 'bucket' is not one of claim",
    ),
    "storage": (("--recipe", "smoke", "--storage", "disk"), "--storage: 'disk' is not one of bucket, claim"),
    "no effect": (("--recipe", "smoke", *NAMES, "--storage-size", "9Gi"), "--storage-size has no effect"),
    "data of a recipe": (("--recipe", "smoke", *NAMES, "--dataset", "gsm8k"), "--dataset has no effect"),
    "version": (
        ("--accelerator", "b200", "--recipe", "smoke", *NAMES, "--framework-version", "v0.1.0"),
        "--framework-version is 'v0.1.0', expected one of v0.4.0, v0.5.0, v0.6.0, v0.7.0, v0.8.0",
    ),
    "namespace": (("-n", "Team"), "--namespace is 'Team'"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_command_line_writes_nothing(words: tuple[str, ...], said: str, grpo: Run) -> None:
    code, out, err = grpo("--yes", *words)
    assert (code, out) == (2, "")
    assert err.startswith("grpo init: ")
    assert "\n  fix: " in err
    assert said in err
    assert not Path("my-site.yaml").exists()


def test_a_secret_is_not_repeated(grpo: Run) -> None:
    secret = EXAMPLES["huggingface"]
    code, out, err = grpo("--yes", "--accelerator", "b200", "--recipe", "smoke", *NAMES, "--hf-secret", secret)
    assert code == 2
    assert "this looks like a secret of the kind huggingface" in err
    assert secret not in out + err


def test_without_a_terminal_the_missing_flags_are_named(grpo: Run) -> None:
    code, _, err = grpo("--accelerator", "b200", "--recipe", "smoke", "--project", "acme-rl")
    assert code == 2
    assert "--project-number, --bucket are missing, and standard input is no terminal to ask on" in err
    assert "and --yes" in err
    code, _, err = grpo("--accelerator", "b200", "--recipe", "smoke", *NAMES)
    assert code == 2
    assert "add --yes" in err
    assert not Path("my-site.yaml").exists()


def test_no_file_is_overwritten(grpo: Run) -> None:
    Path("my-site.yaml").write_text("mine: 1\n")
    code, _, err = grpo("--yes", "--accelerator", "b200", "--recipe", "smoke", *NAMES)
    assert code == 2
    assert "my-site.yaml: exists, and this command never overwrites a file" in err
    assert Path("my-site.yaml").read_text() == "mine: 1\n"
    own = ("--yes", "--accelerator", "b200", "--model", "acme/Own-7B", *NAMES, "--recipe-output", "r.yaml")
    Path("r.yaml").write_text("mine: 1\n")
    code, _, err = grpo(*own, "--output", "site.yaml")
    assert (code, Path("site.yaml").exists()) == (2, False)
    assert "r.yaml: exists" in err
    code, _, err = grpo("--yes", "--accelerator", "b200", "--recipe", "smoke", *NAMES, "--output", "nowhere/site.yaml")
    assert code == 3
    assert "nowhere/site.yaml: cannot be written: there is no folder nowhere" in err


def test_no_written_file_contains_a_local_path(grpo: Run) -> None:
    for name in ("values", "charts"):
        Path(name).unlink()
    words = ("--yes", "--accelerator", "b200", "--model", "acme/Own-7B", *NAMES)
    code, out, _ = grpo(*words, "--no-such")
    assert (code, out) == (2, "")
    code, out, _ = grpo(*words)
    assert code == 0
    for name in ("my-site.yaml", "own-7b-gsm8k-recipe.yaml"):
        text = Path(name).read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert str(Path.cwd()) not in text
        # No copy of the schema is here, and an editor would look for it in vain.
        assert "yaml-language-server" not in text
    text = Path("my-site.yaml").read_text(encoding="utf-8")
    assert "\n#   -f values/accelerators/b200.yaml -f own-7b-gsm8k-recipe.yaml -f my-site.yaml\n" in text
    assert "\n# values/ is that of grpo-charts; grpo init --vendor copies it into a repository.\n" in text
    assert "\n# The paths are those of this machine; for a repository, grpo init --vendor copies the files.\n" in out


def test_findings_are_printed_and_set_the_exit_code(grpo: Run) -> None:
    code, out, err = grpo("--yes", "--accelerator", "gb200", "--recipe", "smoke", *NAMES)
    assert code == 1
    assert "[job/image-for-arm64]" in out
    assert "Next, when the findings are corrected:\n" in out
    assert "\njudged: 3 files" in err


def test_without_helm_the_files_are_written_and_skipped_checks_named(grpo: Run) -> None:
    code, out, err = grpo("--yes", "--accelerator", "b200", "--recipe", "smoke", *NAMES, "--helm", "no-helm")
    assert (code, written()["platform"]["projectId"]) == (3, "acme-rl")
    assert "\njudged: 3 files; not judged: what the charts render (Helm could not run), " in err
    assert "\nNext, when grpo lint can judge the charts:\n\nF=(" in out
    assert "the exit code is 3" in " ".join(grpo("--help")[1].split())


class Person:
    """Somebody at a terminal: reads what `grpo init` asks, and types."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._above, below = pty.openpty()
        self.seen = ""
        command = [sys.executable, "-m", "grpo.cli", "init", *words]
        self.process = subprocess.Popen(
            command, stdin=below, stdout=below, stderr=below, cwd=folder, env=environment(), start_new_session=True
        )  # fmt: skip
        os.close(below)

    def read_until(self, text: str) -> None:
        """Read until a text appears after what was read before."""
        start, ends = len(self.seen), time.monotonic() + 120
        while text not in self.seen[start:] and select.select([self._above], [], [], ends - time.monotonic())[0]:
            try:
                data = os.read(self._above, 65536)
            except OSError:
                break
            self.seen += data.decode().replace("\r\n", "\n")
        assert text in self.seen[start:], self.seen

    def answer(self, asked: str, typed: str) -> None:
        self.read_until(asked)
        os.write(self._above, f"{typed}\n".encode())

    def leave(self) -> int:
        """Read the rest; return the exit code."""
        try:
            while data := os.read(self._above, 65536):
                self.seen += data.decode().replace("\r\n", "\n")
        except OSError:
            pass
        os.close(self._above)
        return self.process.wait(120)


def test_the_user_is_asked_only_for_what_cannot_be_guessed(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.answer("Machine: an accelerator profile, or the cloud's name of it", "b100")
    person.answer("no accelerator profile is called 'b100'", "a4-highgpu-8g")
    person.answer("Recipe, or the name of a model", "Qwen/Qwen2.5-7B-Instruct")
    person.answer("Framework (nemo-rl, verl) [nemo-rl]", "")
    person.answer("Data set (DeepScaler, OpenMathInstruct-2, gsm8k) [gsm8k]", "")
    person.answer("Kind of cluster (gke-standard, gke-autopilot) [gke-standard]", "")
    person.answer("Name of the stack [qwen2-5-7b-instruct-gsm8k]", "team7")
    person.answer("Google Cloud project (its id):", "")
    person.answer("an answer is needed", "my-project")
    person.answer("is the placeholder of the example", "acme-rl")
    person.answer("How you buy the machines", "")
    person.answer("Storage of weights", "")
    person.answer("Number of the project", "482915073164")
    person.answer("Name of the bucket", "acme-rl-runs")
    person.answer("second gVNIC [team7-gvnic]", "")
    person.answer("RoCE profile [team7-rdma]", "")
    person.answer("Tracking of metrics", "none")
    assert person.leave() == 0
    assert "default: --hf-secret hf-secret\n" in person.seen
    assert "clean: 3 files" in person.seen
    assert yaml.safe_load((tmp_path / "my-site.yaml").read_text())["stack"] == {"name": "team7"}
    assert (tmp_path / "team7-recipe.yaml").exists()


def test_nothing_is_written_when_the_user_aborts(tmp_path: Path) -> None:
    person = Person(tmp_path, "--accelerator", "eks-b200", "--recipe", "smoke")
    person.answer("Kind of cluster (kubernetes) [kubernetes]", "")
    person.answer("Name of the stack", "")
    person.answer("checkpoints and logs (claim, class) [claim]", "\x04")
    assert person.leave() == 130
    assert "Traceback" not in person.seen
    assert not (tmp_path / "my-site.yaml").exists()


def test_the_help_explains_every_option(grpo: Run) -> None:
    code, out, _ = grpo("--help")
    assert code == 0
    for question in (questions.MACHINE, *questions.MODEL, *questions.SITE):
        assert f"{question.flag} NAME" in out
    assert max(map(len, out.splitlines())) <= 120
    assert "\n  Examples:\n" in out


def test_only_the_framework_of_the_recipe_is_accepted() -> None:
    given = {**GIVEN, "accelerator": "b200", "recipe": "gemma3-27b-gsm8k"}
    choice = Interview({**given, "framework": "nemo-rl"}, None).run()
    assert choice == Interview(given, None).run()
    with pytest.raises(UsageError, match="--framework is verl, and the recipe gemma3-27b-gsm8k is one of nemo-rl"):
        Interview({**given, "framework": "verl"}, None).run()


def test_commands_printed_in_a_checkout_use_its_files(grpo: Run) -> None:
    """They run where the checkout is cloned, and those of an installed package on one machine."""
    words = ("--yes", "--accelerator", "b200", "--recipe", "smoke", *NAMES)
    code, out, _ = grpo(*words)
    assert code == 0
    assert "F=(-f values/accelerators/b200.yaml -f values/recipes/smoke.yaml -f my-site.yaml)" in out
    assert str(ROOT) not in out
    assert " charts/network " in out
    # Another version is not what the package would install.
    Path("my-site.yaml").unlink()
    Path("charts").unlink()
    for layer in paths.LAYERS:
        Path("charts", layer).mkdir(parents=True)
        Path("charts", layer, "Chart.yaml").write_text("version: 0.0.9\n")
    assert f"-f {ROOT}/values/accelerators/b200.yaml" in grpo(*words)[1]
