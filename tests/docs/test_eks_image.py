"""The image for EKS: its files and pages agree, it is what the profiles expect, and its check finds faults."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs import pages

FOLDER = ROOT / "examples/eks-image"
FILES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.is_file()}
DOCKERFILE, README = FILES["Dockerfile"], FILES["README.md"]
PAGE = (ROOT / "docs/howto/efa.md").read_text(encoding="utf-8")
ARGUMENTS = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
PROFILES = sorted((ROOT / "values/accelerators").glob("eks-*.yaml"))


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def images(folder: str) -> set[str]:
    """Return the training images that the values files of a folder name in full."""
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "values" / folder).glob("*.yaml")]
    named = [one["images"]["training"] for one in found if "repository" in one.get("images", {}).get("training", {})]
    return {f"{one['repository']}:{one['tag']}" for one in named}


def test_all_versions_are_pinned_and_agree() -> None:
    installer, plugin = ARGUMENTS["EFA_INSTALLER"], ARGUMENTS["AWS_OFI_NCCL"]
    assert re.fullmatch(r"[0-9a-f]{64}", ARGUMENTS["EFA_INSTALLER_SHA256"])
    assert "latest" not in DOCKERFILE + FILES["install_efa.sh"]
    (address,) = re.findall(r"https?://[^\s\"]+", FILES["install_efa.sh"])
    assert address.endswith("/aws-efa-installer-$version.tar.gz")
    assert f"| EFA installer | {installer} |" in README
    assert f"| aws-ofi-nccl, in it | {plugin} |" in README
    for text in (README, PAGE):
        assert {*re.findall(r"(?:aws-efa-installer\S*-|-efa)(\d+\.\d+\.\d+)", text)} == {installer}
    assert {*re.findall(r"(?:aws-ofi-nccl|check_plugin\.py) (\d+\.\d+\.\d+)", PAGE)} == {plugin}


def test_the_base_images_are_those_of_the_recipes() -> None:
    recipes = images("recipes")
    assert ARGUMENTS["BASE"] in recipes
    for text in (README, PAGE):
        shown = {*re.findall(r"\| `(\S+/\S+:\S+)` \|", text)}
        assert recipes <= shown <= recipes | images("frameworks")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_the_image_meets_the_requirements_of_the_profile(profile: Path) -> None:
    text = profile.read_text(encoding="utf-8")
    accelerator = yaml.safe_load(text)["accelerator"]
    assert "examples/eks-image" in text
    (least,) = re.findall(r"must hold libfabric and aws-ofi-nccl (\d+\.\d+) or newer", text)
    assert numbers(ARGUMENTS["AWS_OFI_NCCL"]) > numbers(least)
    assert f"NCCL_NET_PLUGIN={accelerator['nccl']['env']['NCCL_NET_PLUGIN']} " in DOCKERFILE
    # The chart would replace the image's LD_LIBRARY_PATH, which has the folders of the plugin first.
    assert accelerator["libraryPath"] == ""
    assert f"network: {accelerator['nccl']['net']}, NCCL: " in PAGE


def test_the_files_have_short_lines_and_valid_shell_code() -> None:
    long = {name for name, text in FILES.items() if max(map(len, text.splitlines())) > 120}
    assert long <= {"README.md"}  # its tables
    runs = [line.removeprefix("RUN ") for line in DOCKERFILE.splitlines() if line.startswith("RUN ")]
    for script in (FILES["install_efa.sh"], "\n".join(runs)):
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert {*re.findall(r"/opt/eks-image/(\S+)", "\n".join(runs))} <= {*FILES}


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_plugin", FOLDER / "check_plugin.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# As the compiler lays them out in an NCCL 2.28: what dlsym is asked for, and a message.
NCCL = b"\0ncclNetPlugin_v10\0ncclNetPlugin_v11\0no ncclNetPlugin_v12 here\0NCCL version 2.28.9+cuda13.0\0"


def test_the_check_compares_the_plugin_interface_with_that_of_nccl(check: ModuleType) -> None:
    assert check.interfaces(NCCL) == {10, 11}
    assert check.shared({6, 10, 11, 12}, NCCL, "libnccl.so.2") == 11
    assert check.shared({6, 10}, NCCL, "libnccl.so.2") == 10
    with pytest.raises(check.CheckError, match=r"lib asks for the interfaces \[10, 11\], and the plugin has \[12\]"):
        check.shared({12}, NCCL, "lib")


def test_the_check_reads_every_nccl_and_requires_the_one_from_a_wheel(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system, wheel = tmp_path / "usr/lib/libnccl.so.2", tmp_path / "venv/nvidia/nccl/lib/libnccl.so.2"
    hidden = tmp_path / "proc/libnccl.so.2"
    for path in (system, wheel, hidden):
        path.parent.mkdir(parents=True)
    system.write_bytes(NCCL)
    hidden.write_bytes(b"")
    with pytest.raises(check.CheckError, match=r"no libnccl\.so\.2 of a wheel"):
        check.check_nccls({11}, str(tmp_path))
    wheel.symlink_to(system)
    check.check_nccls({11}, str(tmp_path))
    assert f"NCCL 2.28.9 takes interface v11: {wheel}\n" in capsys.readouterr().out
    wheel.unlink()
    wheel.write_bytes(b"ncclNetPlugin_v6\0")
    with pytest.raises(check.CheckError, match=re.escape(f"{wheel} asks for the interfaces [6]")):
        check.check_nccls({11}, str(tmp_path))


def test_the_check_opens_the_same_libraries_as_nccl(check: ModuleType) -> None:
    assert check.plugin_name({"NCCL_NET_PLUGIN": "ofi"}) == "libnccl-net-ofi.so"
    assert check.plugin_name({}) == "libnccl-net.so"
    library, path = check.opened("libc.so.6")
    assert library.getpid() > 0
    assert path.endswith("/libc.so.6")
    with pytest.raises(check.CheckError, match=r"does not open libnccl-net-none\.so: .*No such file"):
        check.opened("libnccl-net-none.so")


def test_the_commands_and_the_values_on_the_page_name_the_same_image() -> None:
    named = dict(re.findall(r"^(?:export )?([A-Z_]+)=(\S+)$", "\n".join(pages.blocks(PAGE, "bash")), re.MULTILINE))
    image = named["IMAGE"]
    for name in ("REGISTRY", "AWS_REGION"):
        image = image.replace(f"${name}", named[name])
    (values,) = [yaml.safe_load(text) for text in pages.blocks(PAGE, "yaml") if text.startswith("# my-eks.yaml")]
    assert "{repository}:{tag}".format(**values["images"]["training"]) == image
    assert named["BASE"] == ARGUMENTS["BASE"]
