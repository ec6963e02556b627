"""The figures, steps and phases of a report equal those that grep, awk and a person count in the same logs.

`learn/` has parts of two outputs of `make learn`, with NeMo RL v0.7.0 and with verl 0.9.1, as they were printed. verl's
has each line of a step twice, and it counts once.

`nemo_rl_resumed.log` is all that one more run printed, of another model, other questions and other batches: `make learn
STALL=1 SEED=7` with other settings, which are 14 steps of 12 questions, a checkpoint after each third and a validation
after each fourth step. A worker hung in step 9, and the guard started the training again from step 6: steps 7 and 8 are
there twice, with other numbers, and so is the validation after step 8. An epoch has 8 steps, and the header of step 9
says 1.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from grpo.cli import main as cli
from tests.runlog.test_wandb_files import write

LOGS = Path(__file__).parent / "learn"
NEMO_RL, VERL, RESUMED = LOGS / "nemo_rl.log", LOGS / "verl.log", LOGS / "nemo_rl_resumed.log"
# Steps that a mean of the first or the last steps is of.
ENDS = 10


def shell(script: str, log: Path) -> list[str]:
    """Return the words that a line of shell prints about a log."""
    done = subprocess.run(["sh", "-c", script, "sh", log], capture_output=True, text=True, check=True)
    return done.stdout.split()


def figures(log: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    assert cli.main(["report", str(log), "--format", "json", "--fail-on", "error"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return dict(run["figures"])


def of_nemo_rl(label: str) -> list[float]:
    return [float(word) for word in shell(f"grep -F -e '{label}' \"$1\" | awk '{{print $NF}}' | tr -d s", NEMO_RL)]


def of_verl(key: str) -> list[float]:
    """Return a measure of each step: the words `step:N - ` and `key:VALUE - `, without what numpy adds."""
    script = (
        "sed 's/np.float64(//g; s/)//g' \"$1\" | awk '{ for (i = 1; i <= NF; i++) {"
        f'  if ($i ~ /^step:[0-9]+$/) step = substr($i, 6); if (index($i, "{key}:") == 1)'
        f" value[step] = substr($i, {len(key) + 2}) }} }} END {{ for (n = 1; n in value; n++) print value[n] }}'"
    )
    return [float(word) for word in shell(script, VERL)]


def expected(means: dict[str, Sequence[float]], seconds: Sequence[float], rates: Sequence[float]) -> dict[str, float]:
    """Return the figures of a run; with fewer than ten steps both means are over all of them."""
    firsts = {f"{name}FirstMean": sum(each[:ENDS]) / len(each[:ENDS]) for name, each in means.items()}
    lasts = {f"{name}LastMean": sum(each[-ENDS:]) / len(each[-ENDS:]) for name, each in means.items()}
    return {
        **firsts,
        **lasts,
        "steps": len(seconds),
        "firstStep": 1,
        "lastStep": len(seconds),
        "seconds": sum(seconds),
        "stepSeconds": median(seconds),
        "tokensPerSecondPerGpu": median(rates),
    }


LABELS = {
    "reward": "• Avg Reward:",
    "length": "• Mean Generation Length:",
    "generationKl": "• Generation KL Error:",
}
TIME, RATE = "• Total step time:", "- E2E (Tokens/sec/gpu):"


def test_nemo_rl_figures_match_a_count_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    counted = {name: of_nemo_rl(label) for name, label in LABELS.items()}
    wanted = expected(counted, of_nemo_rl(TIME), of_nemo_rl(RATE))
    assert shell("grep -c 'Training Results' \"$1\"", NEMO_RL) == [str(wanted["steps"])] == ["4"]
    assert figures(NEMO_RL, capsys) == pytest.approx(wanted)


# A value belongs to the number that was printed last before it; of a number that comes again, the later value counts.
BY_NUMBER = """
match($0, before "[0-9]+") { at = substr($0, RSTART + length(before), RLENGTH - length(before)) }
index($0, label) { value[at] = substr($0, index($0, label) + length(label)) + 0 }
END { for (n = 0; n < 100; n++) if (n in value) print n, value[n] }
"""


def of_resumed(label: str, before: str = "train_data_step") -> dict[int, float]:
    """Return a measure of each step, or of what else is numbered."""
    script = f"awk -v label='{label}' -v before='{before}' '{BY_NUMBER}' \"$1\""
    words = iter(shell(script, RESUMED))
    return {int(step): float(value) for step, value in zip(words, words, strict=True)}


VALIDATING = "Starting validation at step "


def test_resumed_nemo_rl_figures_match_a_count_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    counted = {name: of_resumed(label) for name, label in LABELS.items()}
    assert [*counted["reward"]] == [*range(1, 15)]
    # Of 16 results, two are those of the steps that were trained again.
    assert shell("grep -c 'Training Results' \"$1\"", RESUMED) == ["16"]
    means = {name: [*each.values()] for name, each in counted.items()}
    wanted = expected(means, [*of_resumed(TIME).values()], [*of_resumed(RATE).values()])
    validated = of_resumed("• Accuracy:", VALIDATING)
    assert [*validated] == [0, 4, 8, 12]
    wanted |= {"validationFirst": validated[0], "validationLast": validated[12]}
    assert figures(RESUMED, capsys) == pytest.approx(wanted)
    assert wanted["seconds"] == pytest.approx(45.68)


KEYS = {
    "reward": "critic/score/mean",
    "length": "response_length/mean",
    "truncated": "response_length/clip_ratio",
    "kl": "actor/kl_loss",
    "entropy": "actor/entropy",
    "gradNorm": "actor/grad_norm",
    "generationKl": "rollout_corr/kl",
}


LONGEST = "response_length/max"
# 0 on a CPU.
MEMORY = "actor/perf/max_memory_reserved_gb"


def of_verl_run() -> dict[str, float]:
    means = {name: of_verl(key) for name, key in KEYS.items()}
    longest = of_verl(LONGEST)
    # v0.9.1 counts the answers that are as long as the longest of their step, which need not be cut.
    means["truncated"] = [
        share if longest[at] >= max(longest[: at + 1]) else 0.0 for at, share in enumerate(means["truncated"])
    ]
    (validation,) = shell(
        "grep -o 'val-core/[^ ]*mean@1:[^ ]*' \"$1\" | grep -o '[0-9.]*[0-9])$' | tr -d ')' | uniq", VERL
    )
    memory = max(of_verl(MEMORY))
    more = {"validationFirst": float(validation), "validationLast": float(validation), "memoryGib": memory}
    return {**expected(means, of_verl("timing_s/step"), of_verl("perf/throughput")), **more}


def test_verl_figures_match_a_count_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = of_verl_run()
    assert shell("grep -o '^.*step:[0-9]* - global_seqlen' \"$1\" | sort -u | wc -l", VERL) == [str(wanted["steps"])]
    assert figures(VERL, capsys) == pytest.approx(wanted)


@pytest.mark.full
def test_weights_and_biases_figures_match_a_count_by_hand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What verl printed, stored by Weights & Biases: the same figures."""
    keys = [*KEYS.values(), LONGEST, "actor/kl_coef", "timing_s/step", "perf/throughput", MEMORY]
    values = {key: of_verl(key) for key in keys}
    wanted = of_verl_run()
    rows: list[tuple[int, dict[str, object]]] = [(0, {"val-core/openai/gsm8k/acc/mean@1": wanted["validationFirst"]})]
    rows += [
        (step, {key: each[step - 1] for key, each in values.items()}) for step in range(1, int(wanted["steps"]) + 1)
    ]
    assert figures(write(tmp_path, rows), capsys) == pytest.approx(wanted)


def run_of(log: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(["report", str(log), "--format", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return dict(run)


def steps_of(log: Path, capsys: pytest.CaptureFixture[str]) -> dict[int, dict[str, Any]]:
    return {step["number"]: step for step in run_of(log, capsys)["steps"]}


def top(phases: dict[str, float]) -> dict[str, float]:
    """Return the phases that are no part of another one, and that took a time."""
    return {name: seconds for name, seconds in phases.items() if "/" not in name and seconds}


def test_nemo_rl_steps_and_phases_match_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    found = steps_of(NEMO_RL, capsys)
    assert list(found) == [1, 2, 3, 4]
    # Lines 95 to 109 and 122, below "Step 1/6": Loss -0.0196, Avg Reward 0.3789, Mean Generation Length 4.3555, Total
    # step time 2.92s, E2E 732.92 tokens/s; prepare_for_generation/total is the refit; reward_calculation 0.00s.
    first = found[1]
    assert (first["line"], first["loss"], first["reward"], first["length"]) == (94, -0.0196, 0.3789, 4.3555)
    assert (first["seconds"], first["tokens_per_second_per_gpu"]) == (2.92, 732.92)
    assert top(first["phases"]) == {
        "data_processing": 1.02,
        "logprob_inference_prep": 0.74,
        "training_prep": 0.37,
        "generation": 0.31,
        "training": 0.23,
        "logprobs": 0.08,
        "refit": 0.08,
    }
    # Lines 521 to 534 and 548, below "Step 4/6".
    last = found[4]
    assert (last["line"], last["loss"], last["reward"], last["length"]) == (520, 0.0004, 0.5039, 4.5469)
    assert (last["seconds"], last["tokens_per_second_per_gpu"]) == (1.68, 1304.11)
    assert top(last["phases"]) == {
        "logprob_inference_prep": 0.73,
        "training_prep": 0.36,
        "generation": 0.24,
        "training": 0.17,
        "logprobs": 0.08,
        "data_processing": 0.02,
        "refit": 0.02,
    }


def test_steps_validations_and_checkpoints_of_a_resumed_run_match_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(RESUMED, capsys)
    found = {step["number"]: step for step in run["steps"]}
    assert list(found) == list(range(1, 15))
    told = {
        number: (each["line"], each["loss"], each["reward"], each["length"], each["seconds"])
        for number, each in found.items()
    }
    # Lines 223 to 229, and 957 to 963: before the stop. Lines 1100 to 1106 and 1263 to 1269 are the steps 7 and 8 that
    # are lost (rewards 0.4948 and 0.5000); 1573 to 1579 and 1736 to 1742 are those that count.
    assert told[1] == (222, -0.0112, 0.3646, 4.4167, 2.76)
    assert told[6] == (956, 0.0396, 0.5625, 4.3385, 2.18)
    assert told[7] == (1572, -0.0301, 0.5104, 4.6406, 3.04)
    assert told[8] == (1735, -0.0324, 0.4792, 4.4844, 5.73)
    # Lines 1896 to 1902, below "Epoch 2/100" and "Step 1/8" (lines 1796 and 1799); lines 2631 to 2637.
    assert told[9] == (1895, -0.0056, 0.5365, 4.5729, 5.19)
    assert told[14] == (2630, 0.0147, 0.5729, 4.3906, 3.68)
    # Lines 107 to 112, 626 to 631, 1689 to 1694 (1216 to 1221 are those of the lost step 8: 0.4250), 2294 to 2299.
    assert run["validations"] == [
        {"number": 0, "reward": 0.475, "length": 4.5, "seconds": 0.44},
        {"number": 4, "reward": 0.325, "length": 4.5, "seconds": 0.26},
        {"number": 8, "reward": 0.45, "length": 4.4, "seconds": 0.33},
        {"number": 12, "reward": 0.575, "length": 4.5, "seconds": 0.3},
    ]
    # "Saving checkpoint for step" in lines 494, 943, 1880, 2329 and 2616; their "checkpointing" in 519, 967, 1908, 2356
    # and 2643; "Total validation time" in 631, 1694 and 2299.
    phases = {
        name: {number: step["phases"][name] for number, step in found.items() if name in step["phases"]}
        for name in ("checkpoint", "validation")
    }
    assert phases["checkpoint"] == {3: 0.13, 6: 0.12, 9: 0.16, 12: 0.16, 14: 0.14}
    assert [*map(str, phases["checkpoint"])] == shell(
        "grep -o 'Saving checkpoint for step [0-9]*' \"$1\" | awk '{print $NF}'", RESUMED
    )
    assert phases["validation"] == {4: 0.26, 8: 0.33, 12: 0.3}
    assert run["findings"] == []


def test_verl_steps_and_phases_match_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    found = steps_of(VERL, capsys)
    assert list(found) == [1, 2, 3, 4, 5, 6]
    # Line 20, and 24 again: critic/score/mean:0.453125 response_length/mean:4.49609375 timing_s/step:6.2354…, and of
    # timing_s gen:4.0276… old_log_prob:0.6635… ref:0.5454… adv:0.1372… update_actor:0.7734… update_weights:0.0187….
    first = found[1]
    assert (first["reward"], first["length"]) == (0.453125, 4.49609375)
    assert first["seconds"] == pytest.approx(6.23548, abs=1e-5)
    assert first["phases"] == pytest.approx(
        {
            "generation": 4.02767,
            "logprobs": 0.66353,
            "ref": 0.54542,
            "adv": 0.13727,
            "training": 0.77340,
            "refit": 0.01872,
        },
        abs=1e-5,
    )
    # The two lines with step:3.
    third = found[3]
    assert (third["reward"], third["length"]) == (0.390625, 4.41015625)
    assert third["seconds"] == pytest.approx(7.51618, abs=1e-5)
    assert third["phases"] == pytest.approx(
        {
            "generation": 4.12172,
            "logprobs": 0.88073,
            "ref": 0.80402,
            "adv": 0.18831,
            "training": 1.35948,
            "refit": 0.02973,
        },
        abs=1e-5,
    )


@pytest.mark.full
def test_the_pages_table_matches_the_log(tmp_path: Path) -> None:
    """Its numbers are those that the log prints for the four steps, rounded."""
    page = tmp_path / "report.html"
    assert cli.main(["report", str(NEMO_RL), "-o", str(page)]) == 0
    rows = [re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", row) for row in page.read_text("utf-8").split("<tr")[1:]]
    # Step, Avg Reward, Mean Generation Length, Generation KL Error, Loss, E2E (Tokens/sec/gpu), Total step time: lines
    # 95 to 122, 237 to 264, 379 to 406 and 521 to 548.
    assert [row for row in rows if len(row) == 7][-4:] == [
        ["1", "0.3789", "4", "0", "-0.0196", "733", "2.9"],
        ["2", "0.4688", "4", "0", "0.0085", "1434", "1.5"],
        ["3", "0.4102", "5", "0", "-0.0202", "1431", "1.5"],
        ["4", "0.5039", "5", "0", "0.0004", "1304", "1.7"],
    ]
