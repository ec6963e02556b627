"""Find a digest in an earlier file that overrides the training image named in a later file."""

from __future__ import annotations

from collections.abc import Iterator

from postrender.finding import Finding
from postrender.values.merge import Values, merge

_IMAGE = "images.training"


def findings(merged: Values) -> Iterator[Finding]:
    """Yield a finding for the tag or repository that an earlier file's digest makes ineffective."""
    given = [Values(each, ()) for each in merged.documents]
    position = max((at for at, each in enumerate(given) if each.get(f"{_IMAGE}.digest") is not None), default=-1)
    digest = str(merged.get(f"{_IMAGE}.digest") or "")
    if position < 0 or not digest:
        return
    before = merge(merged.documents[: position + 1], merged.files[: position + 1])
    was, now = ({key: each.get(f"{_IMAGE}.{key}") for key in ("repository", "tag")} for each in (before, merged))
    changed = [key for key in was if was[key] != now[key]]
    if not changed or (changed == ["repository"] and _name(was["repository"]) == _name(now["repository"])):
        # A copy in a registry of one's own, with the same name and tag, has the same digest.
        return
    path, source = ("images", "training", changed[0]), merged.at(("images", "training", "digest"))
    image = f"{now['repository']}:{now['tag']}"
    yield Finding(
        f"the image is {image} here, and the digest of {source.file} wins: it is that of "
        f"{was['repository']}:{was['tag']}",
        merged.at(path),
        rule="values/digest-of-another-image",
        why="The pods ask for that digest and ignore the tag: they wait in ImagePullBackOff, or run the other image.",
        fix=f"set {_IMAGE}.digest to '' or to the digest of your image",
        keys=[f"{_IMAGE}.{key}" for key in changed],
        also=[(source, f"wins: {_IMAGE}.digest is {digest}")],
    )


def _name(repository: object) -> str:
    return str(repository).rpartition("/")[2]
