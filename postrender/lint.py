"""Judge values files without rendering.

What Helm misreads, what the schemas refuse, what is a secret or covered; and then the run that they describe.
"""

from __future__ import annotations

from postrender import paths, textio, tokens
from postrender.errors import Location
from postrender.finding import Finding
from postrender.schema import Schema
from postrender.words import WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from postrender.rules.values import Said, ValuesRule
    from postrender.schema import Problem
    from postrender.values import Path, Values
    from postrender.written import Written
    from postrender.yamlio import Node

# This chart reads every section, so its schema refuses whatever one of the other three refuses: a test compares them
# keyword by keyword. Compiling all four would double the time that a clean run takes.
_STRICTEST = "grpo-job"
# What leaves a run that can be judged all the same.
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
    )
)


def lint(files: Sequence[str]) -> list[Finding]:
    """Return the findings of values files, given in the order of `-f`, sorted by place and each once.

    Raises InputError or UnreadableError for the first file that cannot be read as values.
    """
    texts = [(file, textio.read_bytes(file)) for file in files]
    if _is_clean_at_first_sight([data for _, data in texts]):
        return []
    from postrender import values, yamlio

    merged = values.merge([yamlio.values_from_bytes(data, file) for file, data in texts], files)
    found = [*_tokens(texts, merged.root), *_misread(merged.root), *_accelerator(merged), *_recipe(merged)]
    found += [*_version(merged), *_covered(merged), *_schema(merged, Schema(paths.schema(_STRICTEST)))]
    if all(finding.rule in _HARMLESS for finding in found):
        # Of values that are none, whatever follows from them would be said too.
        told = {(finding.at.file, finding.at.line) for finding in found}
        found += [finding for finding in _run(merged) if (finding.at.file, finding.at.line) not in told]
    return sorted({finding.key(): finding for finding in found}.values(), key=Finding.key)


def defaults() -> dict[str, Any]:
    """Return the chart's own values, over which Helm lays the files: a key that has a default is required as well."""
    from postrender import yamlfast

    file = paths.defaults(_STRICTEST)
    data = textio.read_bytes(file)
    tree = yamlfast.load(data)
    if tree is None:
        from postrender import yamlio

        tree = yamlio.values_from_bytes(data, file).plain()
    return tree


def _is_clean_at_first_sight(texts: Sequence[bytes]) -> bool:
    """Say whether plain files have no finding for certain; otherwise the full reader decides, which knows places.

    Half of the chart's schema is Kubernetes' own fields, which few files use: the plain one refuses them.
    """
    from postrender import overlays, yamlfast

    merged = defaults()
    profiles, trees = set(), []
    for data in texts:
        tree = yamlfast.load(data)
        if tree is None or tokens.find(data.decode("utf-8")):
            return False
        profiles.add(overlays.profile_name(tree))
        merged = overlays.overlay(merged, tree)
        trees.append(tree)
    if len(profiles - {""}) != 1 or _may_be_covered(trees, merged) or not _has_catalogue(merged):
        return False
    if not Schema(paths.plain_schema()).is_valid(merged) or _judged(overlays.without_nulls(merged)):
        return False
    # What is accepted and not found is a finding.
    return not merged["checks"]["ignore"]


def _judged(tree: Mapping[str, Any]) -> list[tuple[ValuesRule, Said]]:
    """Return what the rules say about the run that values describe, the charts' defaults below them."""
    from postrender.effective import Effective
    from postrender.judge import judge_run
    from postrender.rules import job_book

    if not _has_catalogue(tree):
        # Said elsewhere.
        return []
    run = Effective(tree)
    if run.framework == "verl":
        from postrender.rules.verl_book import RULES
    else:
        from postrender.rules.nemo_rl_book import RULES
    return judge_run(run, (*job_book.RULES, *RULES))


def _has_catalogue(tree: Mapping[str, Any]) -> bool:
    from postrender import catalogue

    job = tree.get("job")
    return isinstance(job, dict) and job.get("version") in catalogue.versions(str(job.get("framework")))


def _may_be_covered(trees: Sequence[Mapping[str, Any]], merged: Mapping[str, Any]) -> bool:
    """Look closer only where a file with job.config comes after one with job.configFor: most stacks have none."""
    jobs = [job for tree in trees if isinstance(job := tree.get("job"), dict)]
    first = next((number for number, job in enumerate(jobs) if job.get("configFor")), len(jobs))
    if not any(job.get("config") for job in jobs[first + 1 :]):
        return False
    from postrender import covered

    return covered.is_possible(jobs, merged)


def _tokens(texts: Sequence[tuple[str, bytes]], root: Node) -> Iterator[Finding]:
    """Look at the whole text: a secret in a comment is in the repository as well."""
    seen = set()
    for file, data in texts:
        for token in tokens.find(data.decode("utf-8")):
            seen.add((file, token.line))
            yield _token(Location(file, token.line, token.col), token.shape)
    # Escapes and line breaks hide a secret from the text, not from Helm.
    for at, shape in _secret_values(root):
        if (at.file, at.line) not in seen:
            yield _token(at, shape)


def _secret_values(node: Node) -> Iterator[tuple[Location, str]]:
    shape = tokens.shape_of(node.value) if isinstance(node.value, str) else None
    if shape:
        yield node.at, shape
    for child in node.children():
        yield from _secret_values(child)


def _token(at: Location, shape: str) -> Finding:
    return Finding(
        "values/token",
        at,
        f"this looks like a secret of the kind {shape}",
        "Values end up in Git, in the release's Secret and in logs; whoever reads one of them has the secret.",
        "revoke it, put the new one into a Kubernetes Secret and name that (huggingface.secret.name)",
        secret=True,
    )


def _misread(node: Node) -> Iterator[Finding]:
    """Find what Helm, or a chart behind it, takes for something else than what the file says."""
    for word in ("true", "false"):
        quoted = node.value.get(word) if isinstance(node.value, dict) else None
        if quoted and not quoted.spelled:
            yield Finding(
                "values/boolean-key",
                quoted.key_at,
                f'a key called "{word}" cannot be given',
                "Helm makes it of the unquoted words y, yes, on, n, no and off too, so the charts refuse it.",
                "use another name",
            )
    for child in node.children():
        if child.written:
            yield Finding(
                "values/inexact-number",
                child.at,
                f"Helm makes {child.value} of {child.written}",
                "It keeps every number as a 64-bit float, which has 53 bits for digits.",
                "choose a smaller number, or put it in quotes where a text is as good",
            )
        if child.spelled:
            became = "true" if WORDS[child.spelled] else "false"
            yield Finding(
                "values/boolean-key",
                child.key_at,
                f"Helm reads the unquoted key {child.spelled} as the boolean {became}",
                f'The charts and the framework would get a key called "{became}", and never see {child.spelled}.',
                f'write "{child.spelled}": with quotes',
            )
        yield from _misread(child)


def _has_accelerator(merged: Values) -> bool:
    name = merged.node(("accelerator", "name"))
    return name is not None and name.value is not None


def _accelerator(merged: Values) -> Iterator[Finding]:
    if not _has_accelerator(merged):
        known = ", ".join(paths.accelerators()) or "none are installed"
        yield Finding(
            "values/no-accelerator",
            Location(merged.files[0]),
            "no accelerator profile: none of the values files says which machines the stack runs on",
            "Interfaces, driver paths and worker sizes come from the profile; no chart renders without one.",
            f"add -f values/accelerators/NAME.yaml as the first file, or --accelerator NAME (there are: {known})",
        )


def _has_recipe(merged: Values) -> bool:
    return merged.node(("images", "training")) is not None


def _recipe(merged: Values) -> Iterator[Finding]:
    if not _has_recipe(merged):
        yield Finding(
            "values/no-recipe",
            Location(merged.files[0]),
            "no recipe: none of the values files says what is trained, in which image",
            "Image, framework version and configuration belong together and come from one file.",
            f"add -f RECIPE.yaml after the profile, one of: {', '.join(paths.recipes()) or 'none are installed'}",
        )


def _version(merged: Values) -> Iterator[Finding]:
    from postrender import catalogue

    framework, version = merged.get("job.framework", "nemo-rl"), merged.get("job.version")
    known = catalogue.versions(str(framework))
    others = [each for name in ("nemo-rl", "verl") if name != framework for each in catalogue.versions(name)]
    if known and version in others:
        yield Finding(
            "values/version-of-another-framework",
            merged.at(("job", "version")),
            f"job.version is {version}, and job.framework {framework} has {', '.join(known)}",
            "Image, framework, version and configuration belong together; no chart renders without that.",
            "set job.framework, job.version and images.training to a set that belongs together, as the recipes do",
        )


def _covered(merged: Values) -> Iterator[Finding]:
    from postrender import covered

    return covered.findings(merged)


def _schema(merged: Values, schema: Schema) -> Iterator[Finding]:
    from postrender import overlays

    tree = overlays.overlay(defaults(), merged.as_helm_merges())
    if schema.is_valid(tree):
        return
    from postrender.explain import Explainer

    explainer = Explainer(schema, merged)
    for problem in schema.problems(tree):
        if not _is_said_already(problem, merged):
            yield from explainer.findings(problem)


def _run(merged: Values) -> Iterator[Finding]:
    """Judge the run, where the values say enough of one. What is ignored and not found is a finding itself."""
    from postrender import ignores, overlays
    from postrender.written import Written

    tree = overlays.without_nulls(overlays.overlay(defaults(), merged.as_helm_merges()))
    if not (_has_accelerator(merged) and merged.get("job.version") is not None):
        return
    accepted, written = ignores.Ignores(merged), Written.of(merged)
    yield from accepted.left(_finding(rule, said, written) for rule, said in _judged(tree))
    yield from accepted.useless_of_values()


def _finding(rule: ValuesRule, said: Said, written: Written) -> Finding:
    at, also = written.place((*said.keys, *rule.keys))
    proposed = {written.target(key): value for key, value in said.proposed.items()}
    return Finding(
        rule.id,
        at,
        said.what,
        rule.why,
        said.fix or rule.fix,
        severity=rule.severity,
        also=also if not said.keys else (),
        proposed=proposed,
        secret=any(tokens.names_secret(key.rpartition(".")[2]) for key in (said.keys or rule.keys)[:1]),
    )


def _is_said_already(problem: Problem, merged: Values) -> bool:
    """Say whether another finding covers the problem better than the schema could."""
    if problem.keyword == "required":
        section, *rest = (*problem.path, problem.expected)
        of_recipe = section == "images" or (section, *rest) == ("job", "version")
        return (section == "accelerator" and not _has_accelerator(merged)) or (of_recipe and not _has_recipe(merged))
    if problem.keyword == "additionalProperties":
        problem.expected = [key for key in problem.expected if not _is_boolean_key(merged, (*problem.path, key))]
        return not problem.expected
    node = merged.node(problem.path)
    return node is not None and isinstance(node.value, str) and tokens.shape_of(node.value) is not None


def _is_boolean_key(merged: Values, path: Path) -> bool:
    node = merged.node(path)
    return node is not None and bool(node.spelled)
