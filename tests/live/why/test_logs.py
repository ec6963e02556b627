"""Each cause is ranked first where a log shows it; what was survived shows none."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grpo.cli import main as cli
from grpo.live.why import diagnosis, log_reader, registry
from grpo.live.why.ranking import Found
from grpo.problems import registry as problems
from grpo.problems.problem import CONFIGURATION
from tests.processor import limited

PLANTS: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("logs.yaml").read_text("utf-8"))
NOISE = "(Worker pid=1, ip=10.0.0.1) INFO loading shard 3 of 17\n"
CASES = [(cause, number) for cause, texts in PLANTS.items() for number in range(len(texts))]


def ranked(text: str) -> list[Found]:
    return list(diagnosis.of_log(iter([text.encode()]), "log").found)


@pytest.mark.parametrize(("cause", "number"), CASES)
def test_the_planted_cause_is_ranked_first(cause: str, number: int) -> None:
    text = f"{NOISE * 30}{PLANTS[cause][number]}\n{NOISE * 3}"
    found = ranked(text)
    assert [each.cause.id for each in found[:1]] == [cause], [(each.cause.id, each.lines[0].text) for each in found]


@pytest.mark.parametrize(
    "line",
    [
        "[Rank MANY] Timeout at NCCL work: 11, last enqueued NCCL work: MANY",
        'Traceback (most recent call last):\n  File "a.py", line MANY, in step\n    a()\nKeyError: 1',
    ],
)
def test_a_number_too_long_for_python_to_parse_is_treated_as_text(line: str) -> None:
    assert ranked(f"{NOISE}{line.replace('MANY', '9' * 5000)}\n")


def test_every_cause_with_plants_exists_and_has_at_least_two() -> None:
    assert not [cause for cause, texts in PLANTS.items() if len(texts) < 2]
    assert PLANTS.keys() <= {cause.id for cause in registry.causes()}


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:4b:00): 48, pid=77, name=python3, DBE (double bit error)",
        "NVRM: Xid (PCI:0000:4b:00): 74, NVLink: fatal error detected on link 7",
        "NVRM: GPU at PCI:0000:4b:00 has fallen off the bus.",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "Unable to determine the device handle for GPU0000:4B:00.0: Unknown Error",
        "nvidia-container-cli: device error: GPU-0a1b: unknown device",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        "Failed to initialize NVML: Unknown Error",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        "n1:1:2 [0] NCCL WARN NET/IB : Got async fatal event: port error",
        "n1:1:2 [3] net_ib.cc:1298 NCCL WARN NET/IB : Got completion from peer 10.0.0.4<52044> with status=12 opcode=0",
        "n1:1:2 [0] NCCL WARN Cuda failure 'uncorrectable NVLink error detected during the execution'",
        "The node with node id: 3f and address: 10.0.0.9 has been marked dead because the detector has missed too many "
        "heartbeats from it.",
        "kernel: EXT4-fs error (device nvme0n1p1): ext4_find_entry: reading directory lblock 0\n"
        "OSError: [Errno 5] Input/output error: '/data/x'",
    ],
)
def test_a_hardware_fault_is_never_blamed_on_configuration(text: str) -> None:
    """These texts are chosen here, whatever the causes say of themselves."""
    assert ranked(f"{NOISE}{text}\n")[0].cause.blame != CONFIGURATION


@pytest.mark.parametrize(
    "text",
    [
        "",
        NOISE * 5,
        "INFO nccl NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.\n",
        "UserWarning: the default of `trust_remote_code` will change\n",
        "step 4: error rate 0.02, timeouts 0, out of 7 tests 7 passed\n",
        "NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory\n",
        "grpo: the trainer ended with exit code 0\n",
        'INFO httpx: HTTP Request: GET https://cas-bridge.xethub.hf.co/xet "HTTP/1.1 206 Partial Content"\n',
        "WARN Retrying request: CAS service error, url: https://transfer.xethub.hf.co/xorbs/1\n",
        "+ python3 -m verl.trainer.main_ppo data.truncation=error actor_rollout_ref.model.trust_remote_code=True\n",
        " 'data': {'truncation': 'error', 'trust_remote_code': True,\n",
        "Please check that the Hugging Face dataset 'a/b' is in a standard format and remove `trust_remote_code`.\n",
        "WARNING 06-02 10:00:00 [i.py:1] Failed to import from vllm._C with ImportError('libcuda.so.1: cannot open "
        "shared object file: No such file or directory')\n",
        "WARNING: judge request failed, retrying: Error code: 502\n",
        "(raylet) file_system_monitor.cc:116: /tmp/ray/session_1 is over 95% full, available space: 88 GB; capacity: "
        "1900 GB. Object creation will fail if spilling is required.\n",
        "INFO services: Failed to start the dashboard\nStarted a local Ray instance.\n",
        "bash: line 3: uv: command not found\nusing pip\n",
        "WARNING Failed to download 8192 bytes from http://x.example.org/a, retrying (1/3)\n",
        'Quota reserved in ClusterQueue a; considered: b(NoFit;Flavor "b" supports only TopologyAwareScheduling)\n',
        "[INFO|h.py:157] a value head is not there: /data/m does not appear to have a file named value_head.bin.\n",
        "RuntimeWarning: Failed to read commit hash:\nNo module named 'vllm._version'\n",
        "{'data': {'overlong': 'error', 'trust_remote_code': True}, 'trainer': {'must': 'x'}}\n",
        "a tiny model, SIGKILL in the middle; the handler of SIGKILL, SIGTERM and SIGINT\n",
        "(main pid=1) Exception: timed out in math_verify\n",
        "Exception:\n  retries: 3\n",
        "(TaskRunner pid=12) [response] Due to time limitations, I will guess 5.\n",
        "WARNING Target modules {'x'} not found in the base model, ignored\n",
        "WARNING FP8 requires deep_gemm to be installed, falling back\n",
        PLANTS["cuda-oom"][0] + "\n========================= Step 5/10 =========================\n" + NOISE,
        PLANTS["nccl-timeout"][0] + "\nstep:7 - actor/loss:0.1 - critic/score/mean:0.5\n",
        PLANTS["killed"][0] + "\ngrpo: the trainer runs as process 77: python3 train.py\n" + NOISE,
    ],
)
def test_harmless_and_survived_lines_show_no_cause(text: str) -> None:
    assert [(each.cause.id, each.lines[0].text) for each in ranked(text)] == []


@pytest.mark.parametrize("before", [380, 980])
def test_a_token_at_the_cut_of_a_long_line_is_not_shown(before: int) -> None:
    """Half of it has no shape that is known."""
    token = "hf_" + "Ab1" * 12
    found = diagnosis.of_log(iter([f"RuntimeError: 401 Client Error {'x' * before} {token}\n".encode()]), "log")
    for shown in ("\n".join(found.lines()), str(found.as_json()), str(found.found)):
        assert token[:8] not in shown


def test_an_assertion_without_a_message_shows_the_asserted_expression() -> None:
    text = """\
Traceback (most recent call last):
  File "/opt/megatron/data/gpt_dataset.py", line 500, in build
    assert num_samples > 0
           ^^^^^^^^^^^^^^^
AssertionError
"""
    assert ranked(text)[0].lines[0].text == "AssertionError: assert num_samples > 0"
    # Words of the source are no words of an error.
    assert ranked(text.replace("num_samples > 0", "'cuda out of memory' not in x"))[0].cause.id == "data-set"


def test_a_log_with_only_consequences_says_so() -> None:
    found = diagnosis.of_log(iter([PLANTS["actor-died"][0].encode()]), "log")
    assert "only consequences" in found.unread["log"]


def test_roots_rank_before_symptoms_and_consequences_in_any_order() -> None:
    parts = ("actor-died", "nccl-timeout", "python-error", "cuda-oom", "disk-full")
    text = "\n".join(PLANTS[each][0] for each in parts)
    assert [each.cause.id for each in ranked(text)][:4] == ["cuda-oom", "disk-full", "python-error", "nccl-timeout"]


def test_among_equally_long_matches_the_cause_nearer_the_root_is_shown() -> None:
    """A connection that is reset follows from something else."""
    assert [each.cause.id for each in ranked("DistBackendError: ncclSystemError: BrokenPipeError")] == ["nccl-error"]


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ({0: 41, 1: 41, 3: 41}, "no output of rank 2: the others waited in collective 41"),
        ({0: 41, 1: 40, 2: 41}, "rank 1 stopped first, at collective 40; others had reached 41"),
        ({0: 41, 1: 40, 2: 41, 3: 40}, "ranks 1, 3 stopped first, at collective 40; others had reached 41"),
        ({0: 41, 3: 41}, "no output of ranks 1, 2: the others waited in collective 41"),
        ({0: 41, 1: 41}, "all 2 ranks with output wait in collective 41"),
        ({0: 41}, "the only rank with output waits in collective 41"),
    ],
)
def test_the_rank_that_stopped_first_is_named(ranks: dict[int, int], said: str) -> None:
    text = "".join(
        f"[rank{rank}]:[E] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600001 milliseconds\n"
        for rank, number in ranks.items()
    )
    assert ranked(text)[0].remark(None).startswith(said)


def test_repeated_fragments_are_read_quickly() -> None:
    for part in ("requires ", "target modules ", "does not support ", "12", "*** JOB 1 ON "):
        with limited(4):
            text = f"ValueError: {part}not found to be installed CANCELLED AT {part * (200_000 // len(part))}\n"
            ranked(text)


@pytest.mark.full
def test_a_long_log_is_read_with_little_time_and_memory() -> None:
    """200 MB: the middle is not read, and the lines that are left out are named."""
    piece = (NOISE * 9 + "(W pid=2) answer: the error of the estimate is 0.5\n").encode() * 1800

    def pieces() -> Iterator[bytes]:
        size = 0
        while size < 200 << 20:
            size += len(piece)
            yield piece
        yield b"OSError: [Errno 28] No space left on device\n"

    with limited():
        found = diagnosis.of_log(pieces(), "log")
    assert [each.cause.id for each in found.found] == ["disk-full"]
    assert "were not read, the log is too long" in found.unread["log"]
    assert found.found[0].lines[0].order == piece.count(b"\n") * (-(-(200 << 20) // len(piece))) + 1


@pytest.mark.full
def test_a_log_without_line_ends_is_read_with_little_memory() -> None:
    tracemalloc.start()
    for _ in log_reader.read((b"x" * (1 << 20) for _ in range(200)), "log"):
        pass
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


REFUSED = [(each, sign) for each in problems.rules("values") for sign in each.logs]


def test_a_framework_error_leads_to_the_lint_rule_that_predicts_it() -> None:
    by_words: dict[tuple[str, str], list[str]] = {}
    for problem, sign in REFUSED:
        by_words.setdefault((sign.key, sign.frames), []).append(problem.id)
    assert len(by_words) > 100
    for (words, frames), ids in by_words.items():
        (found, *_) = ranked(f"{traceback(frames) if frames else ''}AssertionError: 3 {words} 4")
        assert found.cause.id == (ids[0] if len(ids) == 1 else "known-to-lint"), words
        assert list(found.rules) == ids, words
        assert found.cause.blame == CONFIGURATION
        assert found.value.startswith("job.config.") or found.value in ("job.config", "ray.workers.replicas"), words


def traceback(file: str) -> str:
    return f'Traceback (most recent call last):\n  File "/opt/{file}.py", line 3, in run\n    check(x)\n'


def test_words_that_a_framework_prints_in_several_places_count_only_in_theirs() -> None:
    error = "AssertionError: only support equal chunk. Got size of DataProto 10 and chunk 4."
    (found,) = ranked(f"{traceback('verl/experimental/agent_loop/agent_loop')}{error}")
    assert found.cause.id == "verl/sequences-not-divisible-by-agents"
    (found,) = ranked(f"{traceback('verl/single_controller/base/decorator')}{error}")
    assert (found.cause.id, found.rules) == ("python-error", ())


def test_a_warning_that_a_run_survives_ranks_after_its_error() -> None:
    warning = "WARNING Prompt with 4097 tokens fills or exceeds max_model_len 4096\n"
    found = ranked(f"{warning}{traceback('train')}KeyError: 'answer'")
    assert [each.cause.id for each in found] == ["python-error", "nemo-rl/prompt-longer-than-model"]


def test_what_a_framework_error_asks_for_does_not_need_the_finding_of_lint() -> None:
    """Of a log nobody knows the values that lint lists, counts or names."""
    said = {each.id: each.fix for each in problems.rules("values") if each.logs}
    assert not {
        name: fix
        for name, fix in said.items()
        if re.search(
            r"\bthe (?:list|listed|named|supported)\b|\b(?:raise|lower) it\b|\bthat number\b|\bthe line\b", fix
        )
    }


def test_why_reads_a_log_and_names_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hf_" + "aB3" * 8
    path = tmp_path / "log"
    path.write_text(f"{NOISE}OSError: [Errno 28] No space left on device: 'x?token={token}'\n")
    assert cli.main(["why", str(path)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(
        f"log {path}\n1. disk-full (configuration): a disk or a volume is full\n     {path}:2: OSError"
    )
    assert token not in shown
    assert cli.main(["why", str(path), "--format", "json"]) == 1
    shown = capsys.readouterr().out
    assert token not in shown
    assert json.loads(shown)["healthy"] is False
    path.write_text(NOISE)
    # A log without a cause is not called healthy, and not the opposite: the exit code is 0.
    assert cli.main(["why", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["healthy"], found["causes"]) == (None, [])
    assert cli.main(["why", str(path)]) == 0
    said = capsys.readouterr().out
    assert "\nno known cause was found\n" in said
    assert "do: look into another log: the driver's (grpo logs)" in said
    assert cli.main(["why", str(tmp_path / "none")]) == 3
    assert cli.main(["why", str(tmp_path)]) == 3
    assert "the directory has no attempts/N/output.log\n  fix: " in capsys.readouterr().err
    for attempt, text in (("2", PLANTS["dns"][0]), ("1", "all is well\n")):
        (tmp_path / "attempts" / attempt).mkdir(parents=True)
        (tmp_path / "attempts" / attempt / "output.log").write_text(text)
    assert cli.main(["why", str(tmp_path)]) == 1
    assert "attempts/2/output.log:1: socket.gaierror" in capsys.readouterr().out
    assert cli.main(["why", str(path), "-f", "x.yaml"]) == 2
    assert cli.main(["why"]) == 2
    assert (
        "fix: name a log, a RayJob with --namespace, a bundle with --from, or values files with -f"
        in capsys.readouterr().err
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLANTS["dns"][0].encode())))
    assert cli.main(["why", "-"]) == 1
    assert "standard input:1: socket.gaierror" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the log is empty"),
        (b"\n \n", "the log is empty"),
        (bytes(range(256)), "this is a binary file"),
        (b"\x1f\x8b\x08 packed", "this is compressed"),
        ("\ufeffERROR: killed\n".encode("utf-16-le"), "this is UTF-16, expected UTF-8"),
        ("\ufeffERROR: killed\n".encode("utf-16-be"), "this is UTF-16, expected UTF-8"),
    ],
)
def test_a_file_that_is_not_a_log_is_reported(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert cli.main(["why", str(path)]) == 2
    shown = capsys.readouterr().err
    assert f"{path}: {said}" in shown
    assert "fix: " in shown
