"""The script of the init container that checks a node, run by bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from postrender.wiring import inputs, node_check
from postrender.wiring.plan import Wiring
from tests.conftest import ROOT


def run(lines: list[str]) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_an_nccl_on_the_node_causes_only_a_warning(tmp_path: Path) -> None:
    """PyTorch may still find the image's first, so the pods start."""
    first, second = tmp_path / "nvidia", tmp_path / "gib"
    lines = node_check.shadowed([str(first), str(second)])
    assert run(lines) == (0, "")
    second.mkdir()
    (second / "libnccl-net.so").touch()
    assert run(lines) == (0, "")
    (second / "libnccl.so.2").touch()
    status, said = run(lines)
    assert status == 0
    assert said.startswith(f"check-node: warning: {second}/libnccl.so.2 is the node's NCCL, and LD_LIBRARY_PATH has")


def test_a_missing_or_broken_file_stops_the_pod(tmp_path: Path) -> None:
    script = tmp_path / "set_nccl_env.sh"
    lines = node_check.plugin([str(script)], str(script), in_image=False)
    assert run(lines)[0] == 1
    script.write_text("if true; then\n")
    status, said = run(lines)
    assert (status, f"{script} is not a script that bash can read" in said) == (1, True)
    script.write_text("export NCCL_NET=gIB\n")
    assert run(lines) == (0, "")


def test_an_image_without_the_plugin_is_blamed_instead_of_the_installer(tmp_path: Path) -> None:
    """No installer brings it to the node, so none is blamed."""
    script = tmp_path / "set_nccl_env.sh"
    lines = node_check.plugin([str(script)], str(script), in_image=True)
    status, said = run(lines)
    assert (status, said) == (1, f"check-node: {script} is not readable: {node_check.IMAGE}\n")
    script.write_text("if true; then\n")
    status, said = run(lines)
    assert (status, "installer" in said, "the image has a broken copy" in said) == (1, False, True)


@pytest.mark.parametrize(("profile", "in_image"), [("gb300", True), ("gb200", False), ("b200", False)])
def test_the_gb300_plugin_comes_from_the_image(profile: str, in_image: bool) -> None:
    """Its profile mounts no folder that holds the script."""
    check = Wiring(inputs.load([str(ROOT / f"values/accelerators/{profile}.yaml")])).check_node("trainer:1")
    assert check
    script, mounted = check["args"][0], {mount["mountPath"] for mount in check["volumeMounts"]}
    assert [said in script for said in (node_check.IMAGE, node_check.INSTALLER)] == [in_image, not in_image]
    # Only what the node brings may be the node's NCCL.
    assert ("/usr/local/gib" in mounted, " /usr/local/gib/lib64" in script) == (not in_image, not in_image)
