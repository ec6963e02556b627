"""The figures of a report equal those that grep and awk count in the same logs.

`learn/` has parts of two outputs of `make learn`, with NeMo RL v0.7.0 and with verl 0.9.1, as they were printed. verl's
has each line of a step twice, and it counts once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from postrender.cli import main as cli
from tests.runlog.test_wandb_files import write

LOGS = Path(__file__).parent / "learn"
NEMO_RL, VERL = LOGS / "nemo_rl.log", LOGS / "verl.log"


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
    """Return the figures of a run with fewer than ten steps: both means are over all of them."""
    found = {f"{name}{end}Mean": sum(each) / len(each) for name, each in means.items() for end in ("First", "Last")}
    return {
        **found,
        "steps": len(seconds),
        "firstStep": 1,
        "lastStep": len(seconds),
        "seconds": sum(seconds),
        "stepSeconds": median(seconds),
        "tokensPerSecondPerGpu": median(rates),
    }


def test_nemo_rl(capsys: pytest.CaptureFixture[str]) -> None:
    labels = {
        "reward": "• Avg Reward:",
        "length": "• Mean Generation Length:",
        "generationKl": "• Generation KL Error:",
    }
    counted = {name: of_nemo_rl(label) for name, label in labels.items()}
    wanted = expected(counted, of_nemo_rl("• Total step time:"), of_nemo_rl("- E2E (Tokens/sec/gpu):"))
    assert shell("grep -c 'Training Results' \"$1\"", NEMO_RL) == [str(wanted["steps"])] == ["4"]
    assert figures(NEMO_RL, capsys) == pytest.approx(wanted)


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


def test_verl(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = of_verl_run()
    assert shell("grep -o '^.*step:[0-9]* - global_seqlen' \"$1\" | sort -u | wc -l", VERL) == [str(wanted["steps"])]
    assert figures(VERL, capsys) == pytest.approx(wanted)


@pytest.mark.full
def test_weights_and_biases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What verl printed, stored by Weights & Biases: the same figures."""
    keys = [*KEYS.values(), LONGEST, "actor/kl_coef", "timing_s/step", "perf/throughput", MEMORY]
    values = {key: of_verl(key) for key in keys}
    wanted = of_verl_run()
    rows: list[tuple[int, dict[str, object]]] = [(0, {"val-core/openai/gsm8k/acc/mean@1": wanted["validationFirst"]})]
    rows += [
        (step, {key: each[step - 1] for key, each in values.items()}) for step in range(1, int(wanted["steps"]) + 1)
    ]
    assert figures(write(tmp_path, rows), capsys) == pytest.approx(wanted)
