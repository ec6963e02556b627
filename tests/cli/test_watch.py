"""grpo watch: of a log, of one that grows, of stdin, of the directory of a run, and of what is none of these."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.cli.watching import lines
from grpo.cli.watching.drawing import Screen
from grpo.cli.watching.guard import Judgement, judgement
from grpo.cli.watching.watcher import Watcher
from grpo.problems import registry
from grpo.runlog import pieces, polling
from grpo.runlog.events import Found
from grpo.runlog.shared import Limits, Phase, Step
from postrender.errors import Location
from postrender.problem import LOG
from tests.cli.test_terminal import environment, watched
from tests.conftest import ROOT
from tests.runlog import logs

Run = Callable[..., tuple[int, str, str]]
NAN = float("nan")
DEAD = logs.nemo_rl(steps=7, reward=0.0, loss=0.0)


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["watch", *map(str, words)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "driver.log"
    path.write_text(logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75]))
    return path


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_step_is_printed_as_a_line(grpo: Run, log: Path) -> None:
    code, out, err = grpo(log)
    assert (code, err) == (0, "3 steps, 0 findings\n")
    assert out.splitlines()[1] == (
        "step 2  reward 0.5000  length 200  loss 0.0125  generation KL 0.0007"
        "  50.0 s (generation 40%, training 30%)  640 tokens/s/GPU"
    )
    assert len(out.splitlines()) == 3


def test_each_validation_is_printed_as_a_line(grpo: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(logs.validation(0, 0.125) + logs.header(1, 1) + logs.validation(1, 0.5) + logs.results())
    _, out, _ = grpo(path)
    assert out.splitlines()[:2] == [
        "validation  reward 0.1250  length 202  12.2 s",
        "validation after step 1  reward 0.5000  length 202  12.2 s",
    ]


def test_a_finding_has_a_location_a_reason_and_a_fix(grpo: Run, log: Path) -> None:
    log.write_text(DEAD)
    code, out, err = grpo(log)
    assert (code, err) == (0, "7 steps, 1 finding\n")
    at = [number for number, line in enumerate(DEAD.split("\n"), 1) if line == "📊 Training Results:"][2]
    assert out.splitlines()[3:7] == [
        f"{log}, line {at}: step 3: the mean reward of 3 steps is 0, and the loss is below 0.0001  [run/dead-reward]",
        f"  why: {next(rule for rule in registry.rules(LOG) if rule.id == 'run/dead-reward').why}",
        "  fix: read samples with grpo samples, then try the reward on one of them with grpo try-reward",
        "  see: grpo explain run/dead-reward",
    ]


@pytest.mark.parametrize("sign", ["dead-reward", "run/dead-reward", "error", "kl-blow-up,dead-reward"])
def test_stop_on_ends_the_watch_with_exit_code_1(grpo: Run, log: Path, sign: str) -> None:
    log.write_text(DEAD)
    code, out, err = grpo(log, "--stop-on", sign)
    assert (code, err) == (1, "3 steps, 1 finding\n")
    assert "step 3  " in out
    assert "step 4  " not in out


def test_stop_on_ignores_other_signs(grpo: Run, log: Path) -> None:
    log.write_text(DEAD)
    assert grpo(log, "--stop-on", "kl-blow-up")[0] == 0


def test_with_values_the_watch_stops_where_the_guard_would_end_the_run(grpo: Run, log: Path, tmp_path: Path) -> None:
    """The first sign is that of step 3; test_guard.py says the same of the guard."""
    log.write_text(DEAD)
    values = tmp_path / "values.yaml"
    values.write_text("job: {guard: {stopOn: {dead-reward: {steps: 2}, kl-blow-up: {}, truncated: null}}}\n")
    assert grpo(log, "-f", values)[::2] == (1, "4 steps, 1 finding\n")
    assert grpo(log, "-f", values, "--stop-on", "dead-reward")[::2] == (1, "3 steps, 1 finding\n")
    values.write_text("job: {name: a}\n")
    assert grpo(log, "-f", values)[::2] == (0, "7 steps, 1 finding\n")


def test_a_disabled_guard_does_not_end_the_watch(grpo: Run, log: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("job: {guard: {enabled: false, stopOn: {dead-reward: {}}}}\n")
    assert grpo(log, "-f", values)[0] == 0


def test_values_set_the_limits_of_the_signs(grpo: Run, log: Path, tmp_path: Path) -> None:
    log.write_text(DEAD)
    values = tmp_path / "values.yaml"
    values.write_text("job: {guard: {limits: {deadSteps: 5}, stopOn: {dead-reward: {}}}}\n")
    assert grpo(log, "-f", values)[::2] == (1, "5 steps, 1 finding\n")
    found = judgement([str(values)]).limits
    assert (found.dead_steps, found.collapse_steps) == (5, Limits().collapse_steps)


def test_a_step_printed_twice_is_counted_once(grpo: Run, tmp_path: Path) -> None:
    path, values = tmp_path / "log", tmp_path / "values.yaml"
    path.write_text("".join(row(step, 0.5) * 2 for step in range(1, 8)))
    values.write_text("job: {guard: {stopOn: {dead-reward: {steps: 3}}}}\n")
    code, out, _ = grpo(path, "-f", values)
    assert (code, [line.split()[1] for line in out.splitlines() if line.startswith("step ")]) == (1, list("12345"))


def test_duplicated_log_lines_are_shown_once(grpo: Run) -> None:
    code, out, err = grpo(ROOT / "tests/runlog/learn/verl.log")
    numbers = [line.split()[1] for line in out.splitlines() if line.startswith("step ")]
    assert (code, numbers, err) == (0, list("123456"), "6 steps, 0 findings\n")
    assert out.count("validation") == 1


def test_a_step_repeated_by_a_resumed_run_is_counted_once(grpo: Run) -> None:
    _, out, err = grpo(ROOT / "tests/runlog/learn/nemo_rl_resumed.log")
    assert (out.count("\nstep 8 "), err) == (2, "14 steps, 0 findings\n")


def test_silence_limits_come_from_the_deadlines_in_the_values(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("job: {guard: {factor: 3, deadlines: {stepSeconds: 100, validationSeconds: 900}}}\n")
    limits = judgement([str(values)]).limits
    # Of a checkpoint the chart's own deadline counts.
    assert (limits.silent_seconds, limits.validation_seconds, limits.silent_factor) == (3600, 3600, 3)
    assert judgement([]).limits == Limits()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: {guard: {stopOn: {bad-luck: {}}}}\n", ":1:24: job.guard.stopOn: there is no sign bad-luck; there are"),
        ("job:\n  guard:\n    factor: many\n", ':3:13: job.guard.factor is "many", expected an integer'),
        (
            "job: {guard: {stopOn: {truncated: {steps: 0}}}}\n",
            "job.guard.stopOn.truncated.steps is 0, expected at least 1",
        ),
        ("job: {guard: {limits: {deadStep: 5}}}\n", "fix: did you mean deadSteps?"),
        ("job: {guard: {limits: {kl: high}}}\n", 'job.guard.limits.kl is "high", expected a number'),
        ("job: {guard: null}\n", "job.guard is null, expected a map"),
        ("job: 5\n", "job is 5, expected a map"),
    ],
)
def test_values_the_guard_would_reject_are_refused(
    grpo: Run, log: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "values.yaml").write_text(text)
    code, _, err = grpo(log, "-f", tmp_path / "values.yaml")
    assert (code, message in err) == (2, True), err


def test_json_output_has_one_object_per_line(grpo: Run, log: Path) -> None:
    log.write_text(logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75], loss=[0.0, 0.0, NAN]))
    code, out, _ = grpo(log, "--format", "json")
    found = records(out)
    assert code == 0
    assert [each["event"] for each in found if each["event"] != "phase"] == ["step"] * 3 + ["finding"]
    first, *_, third, finding = [each for each in found if each["event"] != "phase"]
    assert first["number"] == 1
    assert first["phases"]["generation"] == 20.0
    assert "kl" not in first
    assert third["loss"] == "nan"
    assert (finding["rule"], finding["severity"], finding["line"]) == ("run/not-a-number", "error", third["line"])
    assert {each["name"] for each in found if each["event"] == "phase"} == {"loading", "step", "ended"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [],
            "one log is needed\n  fix: grpo watch FILE, grpo watch DIR, grpo watch RUN --namespace NAME, or",
        ),
        (["a", "b"], "grpo watch: one log is needed"),
        (
            ["a", "--stop-on", "ded-reward"],
            "grpo watch: --stop-on is 'ded-reward', expected error or one of dead-reward",
        ),
        (["a", "--stop-on", "ded-reward"], "  fix: did you mean dead-reward?"),
        (["a", "--format", "yaml"], "grpo watch: --format is 'yaml', expected one of text, json"),
    ],
)
def test_a_wrong_command_line_is_refused(grpo: Run, words: list[str], message: str) -> None:
    code, out, err = grpo(*words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\x7fELF\0\0\0", "this is a binary file, not a log"),
        (gzip.compress(b"text", mtime=0), "this is compressed"),
        ("\ufeffstep:1\n".encode("utf-16-le"), "this is UTF-16, expected UTF-8"),
        (b"{'loss': 0.1, 'reward': 0.2}\n", "it has no step of NeMo RL's GRPO or of verl"),
        (b'{"step": 1}\n', "it has no step of NeMo RL's GRPO or of verl"),
        (b'{"content": [["a"]], "rewards": [0.5]}\n', "this has the samples of one step"),
        (DEAD[: DEAD.index("Timing")].encode(), "it ends before its first step is complete"),
        ("\ufeff\u2028".encode() + b"\xff\xfe\n" * 9, "it has no step of NeMo RL's GRPO or of verl"),
    ],
)
def test_input_without_steps_is_refused_with_a_clear_message(
    grpo: Run, tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    code, out, err = grpo(path)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"{path}: {message}"
    assert second.startswith("  fix: ")


def test_a_missing_file_is_refused(grpo: Run, tmp_path: Path) -> None:
    code, _, err = grpo(tmp_path / "none.log")
    assert code == 3
    fix = "name the log, the directory of a run, - for stdin, or a RayJob with --namespace"
    assert err == f"{tmp_path / 'none.log'}: there is no such file\n  fix: {fix}\n"
    assert "fix: Ray's dashboard is http://localhost:8265\n" in grpo("localhost:8265")[2]


def test_namespace_is_refused_for_a_log_file(grpo: Run, log: Path) -> None:
    code, _, err = grpo(log, "--namespace", "rl")
    assert (code, err.splitlines()[1]) == (2, f"  fix: leave out --namespace to read the file {log}")


def test_invalid_utf_8_in_a_log_is_tolerated(grpo: Run, log: Path) -> None:
    log.write_bytes(b"\xff\xfe broken \xc3\n" + log.read_bytes().replace(b"Preparing", b"Prep\xe2\x96aring"))
    assert grpo(log)[2] == "3 steps, 0 findings\n"


def test_secrets_and_control_characters_in_a_log_are_not_shown(grpo: Run, log: Path) -> None:
    """A line shows numbers and names of timers only; a name may be anything."""
    log.write_text(log.read_text().replace("some_new_timer", "\x1b]0;title\x07timer").replace("0.25s", "40.25s"))
    _, out, _ = grpo(log)
    assert "\x1b" not in out


def row(step: int, reward: float) -> str:
    data = {**logs.VERL, "critic/score/mean": reward, "critic/score/min": reward, "critic/score/max": reward}
    return json.dumps({"step": step, "data": data}, separators=(",", ":")) + "\n"


def test_the_verl_file_logger_format_is_recognized(grpo: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(row(step, 0.5) for step in (1, 2, 3)))
    code, out, err = grpo(path)
    assert (code, err) == (0, "3 steps, 1 finding\n")
    assert f"{path}, line 3: step 3: the mean reward of 3 steps is 0.5, and so is that of every answer" in out


def test_rewards_are_read_from_the_samples_of_a_run(grpo: Run, tmp_path: Path) -> None:
    folder = tmp_path / "logs/exp_001"
    folder.mkdir(parents=True)
    for step in (1, 2, 3):
        rows = [{"content": [["question", "answer"]], "rewards": [0.0], "idx": each} for each in range(4)]
        (folder / f"train_data_step{step}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    code, out, err = grpo(tmp_path)
    assert (code, err) == (0, "3 steps, 1 finding\n")
    assert out.startswith("step 1  reward 0.0000\nstep 2  reward 0.0000\n")
    assert f"{folder}/train_data_step3.jsonl: step 3: the mean reward of 3 steps is 0, and so is" in out


def test_the_outputs_of_all_attempts_are_joined_into_one_run(grpo: Run, tmp_path: Path) -> None:
    texts = {"1": logs.nemo_rl(steps=3), "2": "stopped early\n", "10": logs.nemo_rl(steps=2, start=3, reward=0.75)}
    for attempt, text in texts.items():
        (tmp_path / "attempts" / attempt).mkdir(parents=True)
        (tmp_path / "attempts" / attempt / "output.log").write_text(text)
    code, out, err = grpo(tmp_path)
    assert (code, err) == (0, "4 steps, 0 findings\n")
    assert [line.split()[1] for line in out.splitlines()] == ["1", "2", "3", "3", "4"]


def test_a_directory_without_steps_is_refused(grpo: Run, tmp_path: Path) -> None:
    code, _, err = grpo(tmp_path)
    assert code == 2
    assert err.startswith(f"{tmp_path}: the directory has no steps of a training\n  fix: name <mountPath>/runs/NAME")


def write_scalars(folder: Path, rows: dict[int, dict[str, float]]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder.mkdir(parents=True)
    writer = EventFileWriter(str(folder))
    for step, scalars in rows.items():
        for tag, value in scalars.items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(step=step, wall_time=float(step), summary=summary))
    writer.close()


def test_all_nemo_rl_metrics_are_read_from_tensorboard_files(grpo: Run, tmp_path: Path) -> None:
    rows = {
        step: {
            "train/loss": 0.5,
            "train/reward": 0.25 * step,
            "train/grad_norm": 0.125,
            "train/kl_penalty": 0.0625,
            "train/approx_entropy": 0.5,
            "train/mean_gen_tokens_per_sample": 200.25,
            "timing/train/total_step_time": 10.0,
            "timing/train/policy_training": 5.0,
            "performance/tokens_per_sec_per_gpu": 640.0,
        }
        for step in (1, 2)
    }
    rows[2] |= {"validation/accuracy": 0.75}
    write_scalars(tmp_path / "logs/exp_001/tensorboard", rows)
    # The second start of the trainer resumes with step 2.
    write_scalars(tmp_path / "logs/exp_002/tensorboard", {2: {**rows[2], "train/reward": 0.625}, 3: rows[1]})
    code, out, err = grpo(tmp_path)
    assert (code, err) == (0, "3 steps, 0 findings\n")
    assert out.splitlines()[:3] == [
        "step 1  reward 0.2500  length 200  loss 0.5000  KL 0.0625  entropy 0.5  gradient norm 0.125"
        "  10.0 s (training 50%)  640 tokens/s/GPU",
        "validation after step 2  reward 0.7500",
        out.splitlines()[2],
    ]
    assert out.splitlines()[2].startswith("step 2  reward 0.6250")
    (file,) = (tmp_path / "logs/exp_001/tensorboard").iterdir()
    assert grpo(file)[2] == "2 steps, 0 findings\n"


def test_verl_tensorboard_files_are_read_with_its_console_keys(grpo: Run, tmp_path: Path) -> None:
    write_scalars(tmp_path / "logs", {1: {**logs.VERL}, 2: {**logs.VERL}})
    code, out, err = grpo(tmp_path)
    assert (code, err) == (0, "2 steps, 0 findings\n")
    assert out.startswith("step 1  reward 0.8125  length 240  truncated 0%  loss -0.0021  KL 0.00041")


def test_a_pod_log_is_refused_with_the_command_that_prints_the_output(grpo: Run, tmp_path: Path) -> None:
    """Ray writes the output of a training into a file of the head, so `kubectl logs` has no step."""
    path = tmp_path / "pod.log"
    path.write_text("2026-11-26 19:00:00,000 INFO scripts.py:1164 -- Ray runtime started.\n")
    code, _, err = grpo(path)
    assert code == 2
    assert "grpo logs" in err
    assert "kubectl logs" not in err


def test_unrelated_tensorboard_files_are_refused(grpo: Run, tmp_path: Path) -> None:
    write_scalars(tmp_path / "logs", {1: {"accuracy": 0.5}})
    code, _, err = grpo(tmp_path)
    assert code == 2
    assert "it has no step of NeMo RL's GRPO or of verl" in err


def test_without_the_tensorboard_library_its_extra_is_named(
    grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scalars(tmp_path / "logs", {1: {**logs.VERL}})
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, _, err = grpo(tmp_path)
    assert (code, "pip install 'grpo-charts[report]'" in err) == (2, True)
    (file,) = (tmp_path / "logs").iterdir()
    assert "pip install 'grpo-charts[report]'" in grpo(file)[2]


def start(*words: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "grpo.cli", "watch", *map(str, words)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment(), cwd=ROOT, **pipes, **options)  # type: ignore[call-overload,no-any-return]


def test_a_pipe_is_shown_while_it_is_being_written() -> None:
    text = logs.nemo_rl(steps=2)
    cut = text.index("Step 2/2")
    with start("-") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(text[:cut])
        process.stdin.flush()
        assert process.stdout.readline().startswith("step 1  reward 0.2500")
        out, err = process.communicate(text[cut:])
    assert out.startswith("step 2  ")
    assert (process.returncode, err) == (0, "2 steps, 0 findings\n")


def test_an_empty_pipe_is_refused() -> None:
    with start("-") as process:
        _, err = process.communicate("")
    assert (process.returncode, err.splitlines()[0]) == (2, "<stdin>: there is nothing in it")


def test_a_log_is_followed_until_training_ends(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("")
    text = logs.nemo_rl(steps=3)
    middle = text.index("Step 3/3")
    with start(path, "--follow") as process, path.open("a") as file:
        assert process.stdout
        file.write(text[:middle])
        file.flush()
        assert [process.stdout.readline()[:7] for _ in range(2)] == ["step 1 ", "step 2 "]
        file.write(text[middle:])
        file.flush()
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out[:7], err) == (0, "step 3 ", "3 steps, 0 findings\n")


def test_a_truncated_log_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first")
    text = pieces.of_file(str(path), follow=True, pause=lambda _: None)
    assert [next(text), next(text)] == ["first", ""]
    path.write_text("2nd")
    assert [next(text), next(text)] == ["2nd", ""]


def test_an_entry_that_may_still_be_growing_is_read_only_once_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Iterator[dict[int, int]] = iter([{1: 10, 2: 5}, {1: 10, 2: 9}, {1: 10, 2: 9}, {1: 10, 2: 9, 3: 1}])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    found = polling.items(lambda: next(looks), follow=True)
    assert [next(found) for _ in range(4)] == [[(1, 10)], [], [(2, 9)], []]


def test_silence_is_a_sign_only_for_a_live_run(capsys: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    steps = [Found(Step(n, reward=0.1 * n, loss=0.1, seconds=400.0), Location("log", n)) for n in range(1, 6)]

    def batches() -> Iterator[list[Found]]:
        yield steps
        for _ in range(3):
            clock[0] += 4000.0
            yield []

    watcher = Watcher(Screen("text"), Judgement(Limits(), {"stalled": 1}), lambda: clock[0])
    assert not watcher.watch(batches(), live=False)
    assert watcher.findings == []
    watcher = Watcher(Screen("text"), Judgement(Limits(), {}), lambda: clock[0])
    assert not watcher.watch(batches(), live=True)
    assert [finding.rule for finding in watcher.findings] == ["run/stalled"]
    assert "log, line 5: step 5: no step for 8000 s; a step took 400 s  [run/stalled]" in capsys.readouterr().out
    assert Watcher(Screen("text"), Judgement(Limits(), {"stalled": 1}), lambda: clock[0]).watch(batches(), live=True)


@pytest.mark.parametrize(("phase", "stalls"), [("ended", False), ("loading", False), ("validation", True)])
def test_a_run_that_is_loading_or_has_ended_may_be_silent(phase: str, stalls: bool) -> None:
    clock = [0.0]
    steps = [Found(Step(n, reward=0.1 * n, loss=0.1, seconds=400.0), Location("log", n)) for n in range(1, 6)]

    def batches() -> Iterator[list[Found]]:
        yield [*steps, Found(Phase(phase), Location("log"))]
        clock[0] += 9000.0
        yield []

    watcher = Watcher(Screen("text"), Judgement(Limits(), {}), lambda: clock[0])
    watcher.watch(batches(), live=True)
    assert bool(watcher.findings) == stalls


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([1.0], "▁"), ([0.0, 0.5, 1.0], "▁▄█"), ([2.0, 2.0], "▁▁"), ([0.0, NAN, 1.0], "▁ █"), ([NAN], " ")],
)
def test_a_sparkline_has_a_bar_for_each_value(values: list[float], bars: str) -> None:
    assert lines.sparkline(values) == bars


def test_a_terminal_shows_the_reward_curve(log: Path) -> None:
    coloured = watched(log.parent, "watch", str(log))
    assert "▁▄█" in coloured
    assert "\x1b[36m" in coloured


@pytest.mark.full
def test_no_color_disables_curve_colours_and_ci_shows_no_curve(log: Path) -> None:
    plain = watched(log.parent, "watch", str(log), NO_COLOR="1")
    assert "▁▄█" in plain
    assert "\x1b[36m" not in plain
    assert "▁" not in watched(log.parent, "watch", str(log), CI="1")


def test_the_job_log_readers_need_only_the_standard_library() -> None:
    folder = ROOT / "jobs/runlog"
    modules = ",".join(sorted(path.stem for path in folder.glob("*.py")))
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {modules}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=os.sep)
