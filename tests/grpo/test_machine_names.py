"""A machine is found by its profile's name and by its cloud's name for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.start import shipped
from grpo.values import machine_names
from postrender import paths
from postrender.errors import UsageError


@pytest.mark.parametrize("name", paths.accelerators())
def test_each_profile_is_found_by_its_name_and_its_machine(name: str) -> None:
    machine = machine_names.types()[name]
    assert {machine_names.profile(word) for word in (name, machine, machine.upper(), machine.lower())} == {name}


@pytest.mark.parametrize("name", paths.accelerators())
def test_each_profile_has_a_description(name: str) -> None:
    text = shipped.description(paths.accelerator(name))
    assert 20 < len(text) < 120
    assert "Not run" not in text


def test_a_description_is_the_comments_first_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x9.yaml"
    path.write_text("# schema\n# X9: a machine\n# of 3.5 meters. It hums.\naccelerator: {}\n# No.\n", encoding="utf-8")
    assert shipped.description(str(path)) == "X9: a machine of 3.5 meters"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("p5en", "eks-h200"),
        ("p5", "eks-h100"),
        ("P6-B200", "eks-b200"),
        ("p6e-gb200", "eks-gb200"),
        ("a3-ultragpu-8g", "h200"),
        ("a3-ultra", "h200"),
        ("a4-highgpu", "b200"),
        ("a4x-highgpu-4g", "gb200"),
        ("ND96isr_H200_v5", "aks-h200"),
        ("standard_nd96isr_h100_v5", "aks-h100"),
        ("gd-8xh200ib-i128", "coreweave-h200"),
        ("gd-8xh200", "coreweave-h200"),
        ("BM.GPU.H200", "oci-h200"),
        ("g4-standard-384", "rtx-pro-6000"),
        ("EKS_H200", "eks-h200"),
    ],
)
def test_a_clouds_machine_name_leads_to_its_profile(word: str, expected: str) -> None:
    assert machine_names.profile(word) == expected


@pytest.mark.parametrize(
    ("word", "message", "fix"),
    [
        ("H200", "'H200' is a GPU, and these profiles have it: aks-h200 (Standard_ND96isr_H200_v5), ", "of your cloud"),
        ("b20", "no accelerator profile is called 'b20'; the profiles are: aks-gb300, ", "did you mean b200?"),
        (
            "gd-8xh",
            "'gd-8xh' means several machines: coreweave-h100 (gd-8xh100ib-i128), coreweave-h200 (",
            "your cloud",
        ),
        ("a4", "no accelerator profile is called 'a4'", "choose one of them"),
        ("", "no accelerator profile is called ''", "choose one of them"),
    ],
)
def test_a_word_that_matches_no_machine_or_several_is_rejected(word: str, message: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        machine_names.profile(word)
    assert caught.value.message.startswith(message)
    assert fix in caught.value.fix
