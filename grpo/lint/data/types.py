"""Find JSON lines columns whose values have several types, which the library `datasets` rejects or converts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from grpo.lint.data.row_fault import RowFault
from grpo.lint.data.samples import Row, Sample
from postrender.types import Json

_RULE: Final = "data/column-types"
_NAMES: Final = {str: "texts", bool: "booleans", int: "numbers", float: "numbers", list: "lists", dict: "maps"}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?Z?)?")


def problems(sample: Sample, used: Sequence[str]) -> Iterator[tuple[RowFault, Row]]:
    """Yield each place whose values have several types, with the first row that differs, and columns of times."""
    first: dict[str, str] = {}
    told = set[str]()
    for row in sample.rows:
        for place, kind in _kinds(row.values):
            if kind != first.setdefault(place, kind) and place not in told:
                told.add(place)
                what = f"column {place} has {first[place]} and, from here on, {kind}"
                why = (
                    "the run ends when it loads the file, also where it reads other columns only: datasets 4.4.1 ended"
                    " so here, and 5.2.0 did not"
                )
                yield RowFault(_RULE, what, (), why, "write all values of the column as texts", is_doubtful=True), row
    for column in used:
        values = [row.values.get(column) for row in sample.rows if row.values.get(column) is not None]
        if values and all(isinstance(each, str) and _TIME.fullmatch(each) for each in values):
            what = f"column {column} has dates alone, and datasets makes times of them"
            why = "the run does not get the text of the file: datasets 4.4.1 and 5.2.0 made 2024-01-02 00:00:00 of it"
            yield (
                RowFault(_RULE, what, (), why, "write the dates otherwise: 2 January 2024", is_doubtful=True),
                sample.rows[0],
            )


def _kinds(values: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each place in a value with its type; null matches every type."""
    inner: list[tuple[str, Json]] = []
    if isinstance(values, dict):
        inner = [(f"{place}.{name}" if place else name, each) for name, each in values.items()]
    elif isinstance(values, list):
        inner = [(f"{place}[]", each) for each in values]
    for name, each in inner:
        if each is not None:
            yield name, _NAMES[type(each)]
            yield from _kinds(each, name)
