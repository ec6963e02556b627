"""The command `grpo plan`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main
from tests.conftest import stack_files

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line, and return its exit code and what it wrote."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main.main([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_plan_prints_memory_cost_and_a_verdict(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, err = grpo("plan", *files, "--price", "5.5")
    assert (code, err) == (0, "")
    assert out.startswith("model        google/gemma-3-27b-it, 27.4 billion parameters; data: gsm8k\n")
    assert "training     8 GPUs, DTensor v1: data 1 × tensor 8" in out
    assert "88.00 $ an hour" in out
    assert "Ray objects  fits: 0.2 GiB a step, 250.0 GiB of a node's /dev/shm" in out
    assert out.endswith("fits (computed, not measured)\n")
    code, out, _ = grpo("plan", *files, "--format", "json", "--price", "5.5")
    tree = json.loads(out)
    assert {"verdict", "usableGiB", "phases", "host", "generation", "checkpoint", "cost", "assumptions"} <= tree.keys()
    for phase in tree["phases"]:
        assert sum(phase["items"].values()) == pytest.approx(phase["peakGiB"], abs=0.1)
    code, out, _ = grpo("plan", *files, "--format", "markdown", "--explain")
    assert "| phase | verdict |" in out
    assert "weights: 4 B a parameter / 8 GPUs" in out


def test_the_sequences_per_engine_are_those_of_a_whole_step(grpo: Run) -> None:
    """256 prompts × 8 answers, on four engines of 4 GPUs: also where the engine takes fewer at a time."""
    recipe = "qwen2.5-32b-gsm8k-verl"
    files = [word for file in stack_files("h200", recipe) for word in ("-f", str(file))]
    _, out, _ = grpo("plan", *files)
    assert "a step gives it 512, 256 of them at a time (max_num_seqs)\n" in out
    _, out, _ = grpo("plan", *files, "--set", "job.config.actor_rollout_ref.rollout.max_num_seqs=512")
    assert "a step gives it 512\n" in out


@pytest.mark.full
def test_a_model_that_is_too_large_does_not_fit(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, _ = grpo("plan", *files, "--set", "job.config.policy.model_name=meta-llama/Llama-3.1-405B-Instruct")
    assert code == 1
    assert out.endswith("does not fit (computed, not measured)\n")


def test_a_misspelt_key_is_named(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, err = grpo("plan", *files, "--set", "job.config.policy.model_nam=x")
    assert (code, err) == (1, "")
    assert out.endswith(
        "\n\nthe values have errors, so the run may be another one (see grpo explain ID):\n"
        "  <--set>:1:1: policy.model_nam is not a key that nemo-rl v0.7.0 reads  [nemo-rl/unknown-key]\n\n"
        "not modelled: the values have errors; as they were read, the run fits (computed, not measured)\n"
    )
    _, out, _ = grpo("plan", *files, "--set", "job.config.policy.model_nam=x", "--format", "json")
    tree = json.loads(out)
    assert (tree["verdict"], tree["reason"]) == (
        "not modelled",
        "the values have errors; as they were read, the run fits",
    )
    what = "policy.model_nam is not a key that nemo-rl v0.7.0 reads"
    assert tree["errors"] == [{"rule": "nemo-rl/unknown-key", "file": "<--set>", "line": 1, "col": 1, "what": what}]
    code, out, err = grpo("plan", *files[2:], "--compare", "h200", "--set", "job.config.policy.model_nam=x")
    assert "h200     2 × 8  not modelled" in out
    assert out.endswith(
        "\nh200: not modelled, the values have errors; as they were read, the run fits\n"
        f"h200: <--set>:1:1: {what}  [nemo-rl/unknown-key]\n"
    )
    assert code == 1


def test_an_error_names_the_same_line_as_lint(grpo: Run, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("job:\n  nodes: 64\n  config:\n    policy:\n      model_nam: x\n", encoding="utf-8")
    files = [word for file in (*stack_files("h200"), more) for word in ("-f", str(file))]
    _, told, _ = grpo("lint", *files, "--no-render")
    _, out, _ = grpo("plan", *files)
    first = [line for line in told.splitlines() if line.startswith(str(more))]
    assert [line.partition(": ")[0] for line in first] == [f"{more}:2:3", f"{more}:5:7"]
    assert [line.strip() for line in out.splitlines() if str(more) in line] == first
    errors = json.loads(grpo("plan", *files, "--format", "json")[1])["errors"]
    assert [(each["file"], each["line"], each["col"]) for each in errors] == [(str(more), 2, 3), (str(more), 5, 7)]


def test_chart_refusals_are_part_of_the_output(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, err = grpo("plan", *files, "--set", "ray.workers.replicas=1,job.nodes=2")
    assert (code, err) == (1, "")
    assert "\n  <--set>:1:24: job.nodes is 2, and the cluster has 1 GPU nodes  [job/more-nodes-than-cluster]\n" in out
    assert "\nnot modelled: the values have errors; a size is not known\n" in out
    tree = json.loads(grpo("plan", *files, "--set", "ray.workers.replicas=1", "--format", "json")[1])
    assert [each["rule"] for each in tree["errors"]] == ["nemo-rl/generation-gpus-on-one-node"]
    assert tree["reason"] == "the values have errors; a size is not known"


def test_a_site_file_with_placeholders_or_none_at_all_changes_no_size(grpo: Run) -> None:
    files = [word for file in stack_files("h200")[:2] for word in ("-f", str(file))]
    for site in ([], ["-f", "values/examples/site.yaml"]):
        code, out, err = grpo("plan", *files, *site)
        assert (code, err) == (0, "")
        assert out.endswith("\nfits (computed, not measured)\n")


@pytest.mark.full
def test_a_proposed_change_leaves_no_lint_error(grpo: Run, tmp_path: Path) -> None:
    """From TP 4 on, NeMo RL wants both micro batches equal; the run breaks that rule before the change too."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("job:\n  config:\n    policy:\n      train_micro_batch_size: 5\n")
    files = [word for file in [*stack_files("h200"), mine] for word in ("-f", str(file))]
    _, out, _ = grpo("plan", *files)
    assert "\n- policy.train_micro_batch_size=2, policy.logprob_batch_size=2: fits" in out
    assert "largest micro batch: 2 (now 5)" in out
    grpo("plan", *files, "--fix", "--yes")
    code, out, _ = grpo("lint", *files, "--no-render")
    assert (code, "error" in out) == (0, False), out


def test_fix_writes_the_best_change(grpo: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("job:\n  config:\n    policy:\n      train_micro_batch_size: 64\n")
    files = [word for file in [*stack_files("h200"), mine] for word in ("-f", str(file))]
    code, out, _ = grpo("plan", *files)
    assert code == 1
    assert out.endswith("does not fit (computed, not measured)\n")
    first = out.split("what helps, the best first:\n- ")[1].splitlines()[0]
    assert first == "policy.train_micro_batch_size=2, policy.logprob_batch_size=2: fits (more and smaller passes)"
    code, out, err = grpo("plan", *files, "--fix", "--yes")
    assert code == 0
    assert "+      train_micro_batch_size: 2" in err
    assert "train_micro_batch_size: 2\n" in mine.read_text()
    assert out.endswith("fits (computed, not measured)\n")


@pytest.mark.full
def test_a_value_given_by_an_argument_is_not_written_into_a_file(grpo: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("job:\n  config:\n    policy:\n      train_micro_batch_size: 64\n")
    files = [word for file in [*stack_files("h200"), mine] for word in ("-f", str(file))]
    _, _, err = grpo("plan", *files, "--fix")
    assert "grpo plan: nothing was written, because there is no terminal to ask on" in err
    text = mine.read_text()
    code, _, err = grpo("plan", *files, "--set", "job.config.policy.train_micro_batch_size=64", "--fix", "--yes")
    name = "job.config.policy.train_micro_batch_size"
    assert (code, f"not fixed: {name} (grpo plan): --set gives it, and no file: change it there\n" in err) == (1, True)
    assert mine.read_text() == text


def test_compare_lists_machines_side_by_side(grpo: Run) -> None:
    files = [word for file in stack_files("h200")[1:] for word in ("-f", str(file))]
    code, out, err = grpo("plan", *files, "--compare", "h200,b200")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["machine", "h200", "b200"]
    _, out, _ = grpo("plan", *files, "--compare", "h200", "--format", "json")
    assert list(json.loads(out)) == ["h200"]


def test_compare_names_the_cheapest_machine(grpo: Run, tmp_path: Path) -> None:
    """Machines have prices of their own, and a step has a price where its time is known."""
    files = [word for file in stack_files("h200")[1:] for word in ("-f", str(file))]
    machines = ("--compare", "h200,b200,gb200", "--price", "b200=5.5,A3-ultragpu-8g=3.8")
    code, out, err = grpo("plan", *files, *machines)
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()[1:3]] == ["60.80", "88.00"]
    assert "\nh200: job.stepTimes has no time of a step on 2 × h200\n" in out
    assert out.endswith("\ncheapest of those that fit: an hour h200, a step not known\n")
    times = tmp_path / "times.yaml"
    own = {name: {"seconds": seconds, "nodes": 2, "source": "x"} for name, seconds in (("h200", 120), ("b200", 60))}
    times.write_text(json.dumps({"job": {"stepTimes": own}}))
    _, out, _ = grpo("plan", *files, "-f", str(times), *machines)
    assert [line.split()[-2:] for line in out.splitlines()[1:3]] == [["60.80", "2.03"], ["88.00", "1.47"]]
    assert out.endswith("\ncheapest of those that fit: an hour h200, a step b200\n")
    other = {name: {**each, "model": "Qwen/Qwen3-14B"} for name, each in own.items()}
    times.write_text(json.dumps({"job": {"stepTimes": other}}))
    _, out, _ = grpo("plan", *files, "-f", str(times), *machines)
    assert out.endswith("\ncheapest of those that fit: an hour h200, a step not known\n")
    _, out, _ = grpo("plan", *files, "--compare", "h200,b200", "--price", "h200=4")
    assert "\nb200: no price of a GPU hour is given (--price b200=DOLLARS)\n" in out


def test_colocated_generation_needs_fewer_gpus(grpo: Run) -> None:
    files = [word for file in stack_files("h200")[1:] for word in ("-f", str(file))]
    _, out, _ = grpo("plan", *files, "--accelerator", "h200", "--price", "h200=4")
    (line,) = [each for each in out.splitlines() if each.startswith("- ")]
    edits, _, told = line.removeprefix("- ").partition(": ")
    assert told.startswith("fits on 8 GPUs instead of 16 (")
    assert "\n  32.00 $ an hour instead of 64.00 $\n" in out
    words = [word for each in edits.split(", ") for word in ("--set-json", _of_values(each))]
    _, out, _ = grpo("plan", *files, "--accelerator", "h200", *words, "--format", "json", "--price", "4")
    tree = json.loads(out)
    assert (tree["verdict"], tree["cost"]["gpus"], tree["savings"]) == ("fits", 8, [])


def _of_values(edit: str) -> str:
    return edit if edit.startswith("ray.") else f"job.config.{edit}"


def test_plan_works_from_a_config_alone_without_charts(grpo: Run, tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text("defaults: grpo_math_1B.yaml\npolicy: {model_name: Qwen/Qwen3-8B}\ncluster: {gpus_per_node: 8}\n")
    words = ["plan", "--framework", "nemo-rl", "--version", "v0.7.0", "--config", str(file), "--gpu", "h200"]
    code, out, err = grpo(*words, "--nodes", "2", "policy.train_micro_batch_size=2")
    assert (code, err) == (0, "")
    assert "Qwen/Qwen3-8B" in out
    assert "machines     2 × 8 GPUs h200" in out
    for override, name in (
        ("policy.train_micro_batch_sise=2", "_sise"),
        ("policy.train_micro_batch_size=0", "_size is 0"),
    ):
        code, out, err = grpo(*words, override)
        assert (code, err) == (1, "")
        assert "\nthe values have errors, so the run may be another one (see grpo explain ID):\n" in out
        assert f"  policy.train_micro_batch{name}" in out
        assert out.endswith(
            "\nnot modelled: the values have errors; as they were read, the run fits (computed, not measured)\n"
        )


def test_the_picture_is_a_self_contained_svg(grpo: Run, tmp_path: Path) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    picture = tmp_path / "plan.svg"
    assert grpo("plan", *files, "--svg", str(picture))[0] == 0
    text = picture.read_text("utf-8")
    assert text.startswith("<!-- Written by grpo plan --svg. -->\n<svg ")
    assert "url(http" not in text
    assert "optimizer" in text
    assert "cannot be written" in grpo("plan", *files, "--svg", str(tmp_path / "no/plan.svg"))[2]
    assert grpo("plan", *files, "--svg", str(picture))[0] == 0


def test_the_picture_does_not_overwrite_a_values_file(grpo: Run, tmp_path: Path) -> None:
    site = tmp_path / "my-site.yaml"
    site.write_text("job: {attempt: 2}\n")
    files = [word for file in (*stack_files("h200"), site) for word in ("-f", str(file))]
    for word in (site, tmp_path / "." / "my-site.yaml"):
        code, out, err = grpo("plan", *files, "--svg", str(word))
        assert (code, out, site.read_text()) == (2, "", "job: {attempt: 2}\n")
        assert "my-site.yaml: is a file that is to be read\n  fix: name another file\n" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--framework verl", "a configuration needs a machine"),
        ("--framework verl --accelerator h200 --gpu-memory 80", "a configuration needs a machine"),
        ("--framework verl --gpu-memory -1", "--gpu-memory is -1"),
        ("--framework verl --gpu-memory 80 --version 9", "verl 9 is not known, expected one of 0.6.1"),
        ("--framework verl --gpu-memory 80 -f x.yaml", "a configuration without our charts"),
        ("--framework verl --gpu-memory 80 --config missing.yaml", "missing.yaml: there is no such file"),
        ("--nodes 2 -f x.yaml", "--nodes needs --framework"),
        ("x=1", "'x=1' is no option"),
        ("--yes -f x.yaml", "--yes needs --fix"),
        ("--compare h200,h20 -f x.yaml", "no accelerator profile is called 'h20'"),
        ("", "grpo plan: no values file is given"),
        ("-f values/recipes/gemma3-27b-gsm8k.yaml", "the values describe no run on a machine"),
        ("-f values/recipes/gemma3-27b-gsm8k.yaml --price -1", "grpo plan: --price is -1"),
        ("-f x.yaml --compare b200,h200 --price b200=x", "--price is x, expected dollars an hour"),
        (
            "-f x.yaml --compare b200,h200 --price b200=5,gb200=9",
            "--price is of gb200, and no plan for it is asked for",
        ),
        ("-f x.yaml --compare b200,h200 --price b20=5", "no accelerator profile is called 'b20'"),
        ("-f x.yaml --compare b200,h200 --price b200=5,b200=6", "--price has two prices of b200"),
        ("-f x.yaml --compare b200,h200 --price 5.5,h200=3", "expected one price, or one for each machine"),
        ("-f x.yaml --price h200=3", "name the machine with --accelerator"),
        ("-f missing.yaml", "missing.yaml"),
    ],
)
def test_a_wrong_command_line_is_refused(grpo: Run, words: str, message: str) -> None:
    code, out, err = grpo("plan", *words.split())
    assert code > 1
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("given", "line"),
    [
        # 7473 rows give 29 steps of 256 an epoch.
        ([], "6 of 366.2 GiB at the same time, 2197.0 GiB"),
        (["trainer.save_freq=1"], "58 of 366.2 GiB at the same time"),
        (["trainer.max_actor_ckpt_to_keep=3"], "3 of 366.2 GiB at the same time"),
        (["data.train_max_samples=2560", "trainer.save_freq=5"], "4 of 366.2 GiB at the same time"),
        (["data.train_files=/data/own/train.parquet"], "each takes 366.2 GiB, one every 10 steps"),
        (
            ["data.train_files=/data/own/train.parquet", "trainer.max_actor_ckpt_to_keep=3"],
            "3 of 366.2 GiB at the same time",
        ),
    ],
)
def test_the_size_of_verl_checkpoints_is_planned(grpo: Run, given: list[str], line: str) -> None:
    files = [word for file in stack_files("h200", recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(file))]
    sets = [word for each in given for word in ("--set", f"job.config.{each}")]
    _, out, _ = grpo("plan", *files, *sets)
    assert f"checkpoints  {line}" in out


OWN = [
    "--set",
    "job.config.data.train_files=[/data/a/train.parquet,/data/b/train.parquet]".replace("[", "{").replace("]", "}"),
]


def of_own_data(*more: str) -> list[str]:
    """Return the words for a run with verl on data whose rows are not known, with checkpoints on a claim."""
    files = [word for file in stack_files("h200", recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(file))]
    claim = ("storage.data.gcsfuse=null", "storage.data.pvc.storageClassName=nfs", "storage.data.pvc.size=1200Gi")
    return [*files, *(word for each in claim for word in ("--set", each)), *OWN, *more]


def test_checkpoints_that_nobody_has_counted_are_not_said_to_fit(grpo: Run) -> None:
    _, out, _ = grpo("plan", *of_own_data())
    assert (
        "checkpoints  each takes 366.2 GiB, one every 10 steps; the rows of the data, which give the steps, are not"
        " known: --data train=FILE counts them; storage.data.pvc.size is 1200.0 GiB, room for 3\n"
    ) in out
    assert out.endswith("fits (computed, not measured); not judged: whether the volume holds all checkpoints\n")
    _, out, _ = grpo("plan", *of_own_data(), "--format", "json")
    assert json.loads(out)["checkpoint"] == {"verdict": "not modelled", "sizeGiB": 366.16, "kept": None}
    assert json.loads(out)["notJudged"] == ["whether the volume holds all checkpoints"]


def test_rows_of_files_are_counted(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n' * 2560)
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n' * 2560)
    given = [word for name in "ab" for word in ("--data", f"train={tmp_path / name}.jsonl")]
    _, out, _ = grpo("plan", *of_own_data(*given))
    # 20 steps an epoch, two epochs, a checkpoint every 10 steps.
    assert "checkpoints  4 of 366.2 GiB at the same time, 1464.7 GiB; storage.data.pvc.size is 1200.0 GiB\n" in out
    assert out.endswith("tight (computed, not measured)\n")
    _, out, err = grpo("plan", *of_own_data(*given[:2]))
    assert "the rows of the data, which give the steps, are not known" in out
    assert err == "not counted: data.train_files has 2 files: give --data train=FILE for each of them\n"
    _, out, _ = grpo("plan", *of_own_data(*given[:2], "--set", "job.config.data.train_files=/data/a/train.parquet"))
    assert "checkpoints  2 of 366.2 GiB" in out
    _, out, _ = grpo("plan", *of_own_data())
    assert "are not known" in out


def test_a_file_that_cannot_be_counted_is_refused(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"")
    code, _, err = grpo("plan", *of_own_data("--data", f"train={tmp_path / 'train.parquet'}"))
    assert (code, "train.parquet: this file is empty" in err, "JSON" in err) == (2, True, False)
    assert grpo("plan", *of_own_data("--data", f"train={tmp_path / 'none.jsonl'}"))[0] > 1
    assert "--data needs -f" in grpo("plan", "--framework", "verl", "--gpu-memory", "80", "--data", "train=a.jsonl")[2]
