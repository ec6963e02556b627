"""The guard in real pods: a trainer that waits for a worker which hangs is started again on the same cluster."""

from __future__ import annotations

import json
import time

from conftest import NewStack, installed
from harness.waiting import until

# The least that the schema allows; nothing here takes as long.
SHORT = {f"{phase}Seconds": 60 for phase in ("loading", "firstStep", "step", "checkpoint", "validation")}


def test_a_stall_leaves_evidence_and_costs_a_restart_on_the_same_cluster(new_stack: NewStack) -> None:
    guard = {"deadlines": SHORT, "evidenceSeconds": 60}
    with installed(new_stack("b200", "helm4", ray={"head": {"jobStopSeconds": 15}})) as ready:
        ready.trainer.behave(steps=4, stall_at=3)
        run = ready.with_run("stalls", guard=guard)
        pods = {pod["metadata"]["uid"] for pod in run.pods()}
        run.install("grpo-job")
        until(lambda: len(ready.trainer.starts()) == 1, "a trainer", 180)
        began = time.monotonic()
        folder = run.on_volume("/data/runs/stalls")
        until(lambda: len(ready.trainer.starts()) == 2, "a second start", 300, seen=run.job_status)
        assert time.monotonic() - began < 60 + 60 + 15 + 60
        run.until_job("SUCCEEDED", 180)
        assert ready.trainer.starts() == [0, 2]
        assert {pod["metadata"]["uid"] for pod in run.pods()} == pods
        status = json.loads((folder / "status.json").read_text())
        assert (status["state"], status["step"], status["gpus"]) == ("ended", 4, 16)
        assert status["gpuHours"]["lost"] > 16 * 60 / 3600
        (evidence,) = (folder / "attempts/1/evidence").iterdir()
        texts = {str(path.relative_to(evidence)): path.read_text() for path in evidence.rglob("*") if path.is_file()}
        assert "the trainer has stalled: phase step after step 2" in texts["reason.txt"]
        stacks = {name: text for name, text in texts.items() if "/stacks" in name}
        # The driver in the head's pod, and the worker in its own: what each waits for.
        assert any("stand_still" in text for text in stacks.values()), texts
        assert any("collective" in text for text in stacks.values()), texts
        assert len({name.partition("/")[0] for name in texts if name.endswith("nvidia-smi.txt")}) == 3
        assert "16.0/16.0 GPU" in texts["ray-status.txt"] or "8.0/16.0 GPU" in texts["ray-status.txt"]
        assert any("== worker-" in text for name, text in texts.items() if name.endswith("worker-logs.txt"))
        assert any("limit_in_bytes" in text or "memory.max" in text for text in texts.values())
        assert "complete.txt" in texts
        run.uninstall("grpo-job")
