"""Judge values files without rendering.

It reports what Helm misreads, what the schemas reject, secrets and overridden values, and then checks the run that
the values describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpo.lint import (
    file_order,
    ignores,
    image_digest,
    overlay_conflicts,
    placeholders,
    refined,
    removals,
    volume_sources,
)
from grpo.lint.locate import ValueLocator
from grpo.lint.messages import Explainer
from grpo.problems import registry
from grpo.problems.judge_run import judge_run
from grpo.problems.topic import whole
from grpo.values import catalogue, images
from grpo.values.config import RunConfig
from postrender import paths, secrets, textfile
from postrender.errors import Location
from postrender.finding import Finding
from postrender.problem import VALUES, Problem
from postrender.schema import SchemaError, read_schema
from postrender.types import Path
from postrender.values import merge, mutations
from postrender.values.merge import Values
from postrender.values.mutations import dotted
from postrender.yaml.reader import Node
from postrender.yaml.scalars import WORDS

# This chart reads every section, so its schema refuses everything that the other three schemas refuse: a test compares
# them keyword by keyword.
_STRICTEST = "grpo-job"
# With these findings, the run can still be checked.
_HARMLESS = frozenset(
    f"values/{name}"
    for name in (
        "unknown-key",
        "wrong-prefix",
        "dotted-key",
        "token",
        "boolean-key",
        "inexact-number",
        "covered-by-overlay",
        "file-order",
        "placeholder",
        "removes-nothing",
        "digest-of-another-image",
    )
)


def lint(files: Sequence[str]) -> list[Finding]:
    """Return the findings for values files, given in the order of `-f`; raise as merge.load does."""
    return judge_values(merge.load(files))


def judge_values(merged: Values) -> list[Finding]:
    """Return the findings for values, sorted by place and without duplicates."""
    texts = [(file, textfile.read_bytes(file)) for file in dict.fromkeys(merged.files)]
    found = [*_tokens(texts, merged.root), *_misread(merged.root), *_accelerator(merged), *_recipe(merged)]
    found += [
        *_version(merged),
        *overlay_conflicts.findings(merged),
        *file_order.findings(merged),
        *placeholders.findings(merged),
        *removals.findings(merged),
        *image_digest.findings(merged),
        *volume_sources.findings(merged),
        *_schema(merged),
    ]
    if can_render(found):
        # Other checks would only report consequences of values that cannot be read.
        told = {(finding.at.file, finding.at.line) for finding in found}
        found += [finding for finding in _run(merged) if (finding.at.file, finding.at.line) not in told]
    found = refined.with_flags(merged, refined.without_consequences(found))
    return sorted({finding.key(): finding for finding in found}.values(), key=Finding.key)


def can_render(findings: Sequence[Finding]) -> bool:
    """Return whether rendering can reveal more than these findings: Helm would only reject unreadable values."""
    read = all(finding.rule in _HARMLESS or not finding.rule.startswith("values/") for finding in findings)
    return read and not refined.has_section(findings)


def _has_catalogue(tree: Mapping[str, Any]) -> bool:
    job = tree.get("job")
    return isinstance(job, dict) and job.get("version") in catalogue.versions(str(job.get("framework")))


def _tokens(texts: Sequence[tuple[str, bytes]], root: Node) -> Iterator[Finding]:
    """Search the complete text for tokens: a secret in a comment is in the repository too."""
    seen = set()
    for file, data in texts:
        for token in secrets.find(data.decode("utf-8")):
            seen.add((file, token.line))
            yield _token(Location(file, token.line, token.col), token.shape)
    # A secret with escapes or line breaks is not visible in the text, but Helm reads it.
    for at, shape in _secret_values(root):
        if (at.file, at.line) not in seen:
            yield _token(at, shape)


def _secret_values(root: Node) -> Iterator[tuple[Location, str]]:
    for path, leaf in mutations.leaves(root):
        if isinstance(leaf.value, str):
            of_reference = path[-2:-1] == ("secret",) and secrets.is_bare_key(leaf.value)
            shape = "wandb" if of_reference else secrets.shape_of(leaf.value)
            if shape:
                yield leaf.at, shape


def _token(at: Location, shape: str) -> Finding:
    return Finding(
        f"this looks like a secret of the kind {secrets.title_of(shape)}",
        at,
        rule="values/token",
        why="Values end up in Git, in the release's Secret and in logs; whoever reads one of them has the secret.",
        fix=f"revoke it, put the new one into a Kubernetes Secret, and name that in {secrets.place_of(shape)}",
        secret=True,
    )


def _misread(node: Node) -> Iterator[Finding]:
    """Find values that Helm, or a chart, reads differently from what the file says."""
    for word in ("true", "false"):
        quoted = node.value.get(word) if isinstance(node.value, dict) else None
        if quoted and not quoted.spelled:
            yield Finding(
                f'a key called "{word}" cannot be given',
                quoted.key_at,
                rule="values/boolean-key",
                why="Helm reads the unquoted words y, yes, on, n, no and off as booleans, so the charts refuse it.",
                fix="use another name",
            )
    for child in node.children():
        if child.written:
            yield Finding(
                f"Helm makes {child.value} of {child.written}",
                child.at,
                rule="values/inexact-number",
                why="Helm stores every number as a 64-bit float, which has 53 bits for digits.",
                fix="choose a smaller number, or put it in quotes if the key accepts a string",
            )
        if child.spelled:
            became = "true" if WORDS[child.spelled] else "false"
            yield Finding(
                f"Helm reads the unquoted key {child.spelled} as the boolean {became}",
                child.key_at,
                rule="values/boolean-key",
                why=f'The charts and the framework would get a key called "{became}", and never see {child.spelled}.',
                fix=f'write "{child.spelled}": with quotes',
            )
        yield from _misread(child)


def _has_accelerator(merged: Values) -> bool:
    name = merged.node(("accelerator", "name"))
    return name is not None and name.value is not None


def _accelerator(merged: Values) -> Iterator[Finding]:
    if not _has_accelerator(merged):
        known = ", ".join(paths.accelerators()) or "none are installed"
        yield Finding(
            "no accelerator profile: none of the values files says which machines the stack runs on",
            Location(merged.files[0]),
            rule="values/no-accelerator",
            why="Interfaces, driver paths and worker sizes come from the profile; no chart renders without one.",
            fix=f"add -f values/accelerators/NAME.yaml as the first file, or --accelerator NAME (there are: {known})",
        )


def has_recipe(merged: Values) -> bool:
    """Return whether the values say what is trained, and in which image."""
    # A site file may name an image and change the configuration too, but does not say what is in the image.
    return any(merged.node(path) for path in (("job", "version"), ("images", "training", "rayVersion")))


def _recipe(merged: Values) -> Iterator[Finding]:
    if not has_recipe(merged):
        recipes = images.recipes(str(merged.get("job.framework") or ""))
        yield Finding(
            "no recipe: none of the values files says what is trained, in which image",
            Location(merged.files[0]),
            rule="values/no-recipe",
            why="Image, framework version and configuration belong together and come from one file.",
            fix=f"add -f RECIPE.yaml after the profile, one of: {', '.join(recipes) or 'none are installed'}",
        )


def _version(merged: Values) -> Iterator[Finding]:
    framework, version = merged.get("job.framework", "nemo-rl"), merged.get("job.version")
    known = catalogue.versions(str(framework))
    others = [each for name in ("nemo-rl", "verl") if name != framework for each in catalogue.versions(name)]
    if known and version in others:
        yield Finding(
            f"job.version is {version}, and job.framework {framework} has {', '.join(known)}",
            merged.at(("job", "version")),
            rule="values/version-of-another-framework",
            why="Image, framework, version and configuration belong together; no chart renders without that.",
            fix="set job.framework, job.version and images.training to a set that belongs together, as the recipes do",
        )


def _schema(merged: Values) -> Iterator[Finding]:
    schema = read_schema(paths.schema(_STRICTEST))
    tree = merge.overlay(merge.defaults(), merged.as_helm_merges())
    if schema.is_valid(tree):
        return
    explainer = Explainer(schema, merged)
    missing = []
    for problem in schema.problems(tree):
        if _is_covered_by_another(problem, merged):
            continue
        if problem.keyword == "required" and not paths.own(merged.files):
            missing.append(dotted((*problem.path, problem.expected)))
        else:
            yield from explainer.findings(problem)
    if missing:
        yield _no_site(merged, missing)


def _no_site(merged: Values, missing: Sequence[str]) -> Finding:
    return Finding(
        f"no site file: all values files are packaged ones, and none sets {', '.join(sorted(missing))}",
        Location(merged.files[-1]),
        rule="values/no-site",
        why="The names of the stack and of the cluster's own objects are yours; an update replaces packaged files.",
        fix="copy values/examples/site.yaml, write your names into it, and give your file as the last -f",
    )


def described_run(merged: Values) -> RunConfig | None:
    """Return the run that the values describe, or None without an accelerator profile or a known framework version."""
    tree = merge.over_defaults(merged)
    if not (_has_accelerator(merged) and _has_catalogue(tree)):
        return None
    locator = ValueLocator.of(merged)
    return RunConfig(
        tree,
        inherits=lambda key, other: locator.inherits(whole(key), whole(other)),
        is_later=lambda key, other: locator.is_later(whole(key), whole(other)),
    )


def _run(merged: Values) -> Iterator[Finding]:
    """Check the run if the values describe one, and report checks.ignore entries that accept no finding."""
    if not (_has_accelerator(merged) and merged.get("job.version") is not None):
        return
    accepted, locator = ignores.Ignores(merged), ValueLocator.of(merged)
    # Another finding reports a version without a catalogue.
    run = described_run(merged)
    judged = judge_run(run, registry.rules(VALUES)) if run else []
    yield from accepted.left(_located(rule, finding, locator) for rule, finding in judged)
    yield from accepted.useless_of_values(run)


def _located(rule: Problem, finding: Finding, locator: ValueLocator) -> Finding:
    """Set a finding's place in the files, from its own keys or else from its rule's keys."""
    own, keys = [*map(whole, finding.keys)], [*map(whole, (*finding.keys, *rule.keys))]
    at, also = locator.place(own if any(map(locator.path, own)) else keys)
    return finding._replace(
        at=at,
        also=() if own else also,
        edits={locator.target(whole(key)): value for key, value in finding.proposed.items()},
        secret=any(secrets.names_secret(key.rpartition(".")[2]) for key in keys[:1]),
    )


def _is_covered_by_another(problem: SchemaError, merged: Values) -> bool:
    """Return whether another finding describes the problem better than the schema."""
    if problem.keyword == "required":
        section, *rest = (*problem.path, problem.expected)
        if volume_sources.is_of_several(problem.path, merged):
            return True
        of_recipe = section == "images" or (section, *rest) in (("job", "version"), ("job", "name"))
        return (section == "accelerator" and not _has_accelerator(merged)) or (of_recipe and not has_recipe(merged))
    if problem.keyword == "additionalProperties":
        problem.expected = [key for key in problem.expected if not _is_boolean_key(merged, (*problem.path, key))]
        return not problem.expected
    node = merged.node(problem.path)
    # The key may be a part of the shape: WANDB_API_KEY in front of a key of W&B.
    text = f"{problem.path[-1]}: {node.value}" if node and problem.path and isinstance(node.value, str) else ""
    return secrets.shape_of(text) is not None


def _is_boolean_key(merged: Values, path: Path) -> bool:
    node = merged.node(path)
    return node is not None and bool(node.spelled)
