"""The scope of a report: without it, a report without findings would look as if everything had been judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from postrender import masking
from postrender.counting import counted


class Scope(NamedTuple):
    """The values files, charts, objects and data rows that were judged, and a description of what was not.

    `charts` is None if no chart was rendered, `rows` if no data was given. `copies` is the folder of the charts if they
    are not the package's own.
    """

    files: Sequence[str]
    charts: Sequence[str] | None
    objects: int
    rows: int | None
    missing: Sequence[str]
    all_rules: bool = True
    copies: str = ""

    def judged(self) -> Iterator[str]:
        """Describe how many of each kind were judged."""
        yield counted(len(self.files), "file")
        if self.charts is not None:
            where = f" in {self.copies}" if self.copies else ""
            yield from (f"{counted(len(self.charts), 'chart')}{where}", counted(self.objects, "object"))
        if self.rows is not None:
            yield counted(self.rows, "row") + " of data"

    def tree(self) -> dict[str, Any]:
        """Return the scope's fields in a JSON report."""
        judged = {
            "files": [masking.text(file) for file in self.files],
            "charts": [*(self.charts or ())],
            **({"chartsIn": masking.text(self.copies)} if self.copies else {}),
            "objects": self.objects,
            **({} if self.rows is None else {"rows": self.rows}),
            "allRules": self.all_rules,
        }
        return {"judged": judged, "notJudged": [masking.text(each) for each in self.missing]}
