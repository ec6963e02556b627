"""Charts, profiles and schemas are found in a checkout and in an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrender import paths
from postrender.errors import InstallationError, UsageError
from tests.conftest import LAYERS, PROFILES, ROOT


def test_a_checkout_provides_its_own_data() -> None:
    assert Path(paths.data_root()) == ROOT
    assert tuple(paths.LAYERS) == LAYERS
    assert paths.accelerators() == [*PROFILES]
    for layer in LAYERS:
        assert Path(paths.chart(layer), "Chart.yaml").is_file()
        assert Path(paths.schema(layer)).is_file()
    for name in PROFILES:
        assert Path(paths.accelerator(name)).is_file()


def test_the_charts_of_a_copy_are_found_next_to_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = str(ROOT / "charts")
    assert paths.charts_of(["site.yaml", paths.accelerator("b200")]) == packaged
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib/charts").mkdir(parents=True)
    profile = "lib/values/accelerators/b200.yaml"
    assert paths.charts_of([profile]) == packaged
    for layer in LAYERS:
        (tmp_path / "lib/charts" / layer).mkdir()
        (tmp_path / "lib/charts" / layer / "Chart.yaml").touch()
    assert paths.charts_of(["site.yaml", profile]) == "lib/charts"
    assert paths.charts_of([paths.accelerator("b200"), profile]) == "lib/charts"
    assert paths.charts_of([str(tmp_path / profile)]) == str(tmp_path / "lib/charts")
    assert paths.charts_of(["lib/site.yaml"]) == packaged
    assert paths.charts_of([]) == packaged


def test_an_installed_package_contains_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "postrender/_data/charts").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", str(tmp_path / "postrender"))
    assert paths.data_root() == str(tmp_path / "postrender/_data")
    assert paths.accelerators() == []
    with pytest.raises(UsageError, match="none are installed"):
        paths.accelerator("b200")


def test_an_installation_without_charts_is_reported_as_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_PACKAGE", str(tmp_path / "postrender"))
    with pytest.raises(InstallationError, match="the charts are missing: expected"):
        paths.data_root()


@pytest.mark.parametrize("name", ["b100", "../recipes/gemma3-27b-gsm8k", "", "b200.yaml"])
def test_an_unknown_profile_error_lists_the_available_profiles(name: str) -> None:
    with pytest.raises(UsageError, match=f"the profiles are: {', '.join(PROFILES)}"):
        paths.accelerator(name)


def test_an_unknown_layer_error_lists_the_layers() -> None:
    with pytest.raises(UsageError, match="the layers are network, storage, raycluster, grpo-job"):
        paths.chart("jobs")
