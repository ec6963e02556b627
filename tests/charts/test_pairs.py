"""Every pair of options renders whole and valid objects, or is refused with a sentence that says what to change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests import options
from tests.conftest import Render, thin

RenderText = Callable[..., Rendered]
ROWS = options.rows()


@pytest.mark.parametrize("row", thin(ROWS, 36), ids=options.label)
def test_each_row_of_options_renders_valid_unique_objects(row: options.Row, render: Render) -> None:
    """Each object is valid by the schema of its kind, and no two have one identity."""
    values = options.values(row)
    objects = [item for layer in options.layers(row) for item in render(layer, values, accelerator=row["accelerator"])]
    identities = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects]
    assert len(identities) == len(set(identities))


def test_the_rows_cover_every_possible_pair() -> None:
    """What the rows are for; and few enough to be given to an API server."""
    held = set().union(*map(options.pairs, ROWS))
    assert options.possible_pairs() <= held
    assert len(ROWS) <= 80


@pytest.mark.parametrize("pair", thin(list(options.REFUSED), 6), ids=lambda pair: "-".join((*pair.one, *pair.other)))
def test_a_pair_that_cannot_work_is_refused(pair: options.Refused, render_text: RenderText) -> None:
    """With what to change, before anything is installed."""
    row = dict((pair.one, pair.other))
    profile = row.get("accelerator") or ("infiniband-b200" if row.get("platform") == "kubernetes" else "b200")
    row = {"network": options.modes(profile)[0], "data": "claim", **row}
    with pytest.raises(RenderError, match=pair.message):
        render_text(pair.layer, options.values(row), accelerator=profile)
