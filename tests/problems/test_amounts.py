"""Quantities of Kubernetes and durations of Go are the numbers that they are, to the last digit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.problems.ray.duration import nanoseconds, number
from postrender.values.quantity import near, quantity, whole

UNITS = {
    **{"": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)},
}


@given(st.integers(0, 10**6), st.sampled_from(["", "."]), st.integers(0, 10**6), st.sampled_from([*UNITS]))
def test_a_quantity_is_the_nearest_float(whole: int, dot: str, part: int, unit: str) -> None:
    text = f"{whole}{dot}{part if dot else ''}"
    assert quantity(f"{text}{unit}") == float(Fraction(text) * UNITS[unit])


@pytest.mark.parametrize(("one", "other"), [("4.1G", "4100M"), ("0.27T", "270G"), ("1e3", "1k"), ("1.5e-3", "1.5m")])
def test_different_spellings_of_a_quantity_are_equal(one: str, other: str) -> None:
    assert quantity(one) == quantity(other)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *[("64GB", "64Gi"), ("64 gb", "64Gi"), ("900G", "900Gi"), ("900 GiB", "900Gi"), ("512mb", "512Mi")],
        *[("1.5TB", "1536Gi"), ("1.2345TB", ""), ("0GB", ""), ("64", ""), ("GB", ""), ("9" * 5000 + "GB", "")],
    ],
)
def test_a_byte_unit_suggests_the_nearest_quantity(text: str, meant: str) -> None:
    assert near(text) == meant


def test_an_overlong_number_is_infinite_or_not_a_number() -> None:
    assert quantity("1" * 5000) == float("inf")
    assert quantity("1e5000") == float("inf")
    assert number("1" * 5000) is None
    assert nanoseconds("1" * 5000 + "h") is None
    assert nanoseconds("1h30m") == 5400 * 10**9
    assert whole("1" * 5000) == 0


@pytest.mark.parametrize("eight", [8, "8", 8.0, "8.0", "8e0", "8000m"])
def test_different_spellings_of_a_whole_number_are_equal(eight: object) -> None:
    assert whole(eight) == 8


@pytest.mark.parametrize("other", [True, None, "", "x", 0.5, "500m", -8, float("nan"), [8]])
def test_anything_that_is_not_a_whole_number_is_0(other: object) -> None:
    assert whole(other) == 0
