"""What a report is about: without it, a report without findings would look like that of a stack that is clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from postrender import masking
from postrender.counting import counted


class Scope(NamedTuple):
    """The values files, charts, objects and rows of data that were judged, and in words what was not.

    `charts` is None if no chart was rendered, `rows` if no data was given. `copies` is the folder of charts that are
    not those of the package.
    """

    files: Sequence[str]
    charts: Sequence[str] | None
    objects: int
    rows: int | None
    missing: Sequence[str]
    all_rules: bool = True
    copies: str = ""

    def judged(self) -> Iterator[str]:
        """Yield how much of each kind was judged, in words."""
        yield counted(len(self.files), "file")
        if self.charts is not None:
            where = f" in {self.copies}" if self.copies else ""
            yield from (f"{counted(len(self.charts), 'chart')}{where}", counted(self.objects, "object"))
        if self.rows is not None:
            yield counted(self.rows, "row") + " of data"

    def tree(self) -> dict[str, Any]:
        """Return the fields of a JSON report."""
        judged = {
            "files": [masking.text(file) for file in self.files],
            "charts": [*(self.charts or ())],
            **({"chartsIn": masking.text(self.copies)} if self.copies else {}),
            "objects": self.objects,
            **({} if self.rows is None else {"rows": self.rows}),
            "allRules": self.all_rules,
        }
        return {"judged": judged, "notJudged": [masking.text(each) for each in self.missing]}
