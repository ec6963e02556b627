"""The script of the init container that checks a node, run by bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

from postrender.wiring import node_check


def run(lines: list[str]) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_an_nccl_of_the_node_is_a_warning(tmp_path: Path) -> None:
    """PyTorch may still find the image's first, so the pods start."""
    first, second = tmp_path / "nvidia", tmp_path / "gib"
    lines = node_check.shadowed(f"{first}:{second}")
    assert run(lines) == (0, "")
    second.mkdir()
    (second / "libnccl-net.so").touch()
    assert run(lines) == (0, "")
    (second / "libnccl.so.2").touch()
    status, said = run(lines)
    assert status == 0
    assert said.startswith(f"check-node: warning: {second}/libnccl.so.2 is the node's NCCL, and LD_LIBRARY_PATH has")


def test_a_file_that_is_missing_or_broken_stops_the_pod(tmp_path: Path) -> None:
    script = tmp_path / "set_nccl_env.sh"
    lines = node_check.installed([str(script)], str(script))
    assert run(lines)[0] == 1
    script.write_text("if true; then\n")
    status, said = run(lines)
    assert (status, f"{script} is not a script that bash can read" in said) == (1, True)
    script.write_text("export NCCL_NET=gIB\n")
    assert run(lines) == (0, "")
