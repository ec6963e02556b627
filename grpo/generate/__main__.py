"""Write every generated file, or list the stale ones: `python -m grpo.generate [--check]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Used directly for its RE2-like regex engine, which postrender.schema does not expose.
import jsonschema_rs

from grpo.generate import curves, facts, kinds, programs, reference, schemas, sources, tutorial
from grpo.generate.blocks import pages
from grpo.generate.blocks.texts import Facts
from grpo.generate.sources import CHARTS, COMMAND, ROOT, Schema, SourceError
from postrender.errors import RenderError
from postrender.manifests.schemas import DEFAULT, of_version


def outputs(root: Path) -> dict[str, str]:
    """Return the text of each generated file by its path below the repository root, except those of `rendered`.

    Raises SourceError if the sources have errors.
    """
    tree = sources.load(root)
    problems = list(sources.check(tree))
    if problems:
        raise SourceError("\n".join(problems))
    of_kubernetes = kinds.kubernetes(root)
    kubernetes: Mapping[str, Schema] = of_version(of_kubernetes["$defs"], DEFAULT)
    out = facts.render(root, tree)
    out[f"{facts.FOLDER}/kinds/kubernetes.json"] = facts.lines_json(of_kubernetes)
    out[f"{facts.FOLDER}/kinds/custom.json"] = facts.lines_json(kinds.custom(root, kubernetes))
    for chart in CHARTS:
        schema = schemas.bundle(tree, chart, kubernetes)
        check_defaults(chart, schema, reference.defaults(tree, chart))
        out[f"charts/{chart}/values.schema.json"] = text(schema)
        out[f"charts/{chart}/values.yaml"] = reference.values_yaml(tree, chart)
        out[reference.readme_path(chart)] = reference.readme(tree, chart, root)
    whole = schemas.bundle(tree, "grpo-job", kubernetes)
    out["schemas/values.schema.json"] = text(schemas.for_editors(whole))
    out["charts/common/templates/_tokens.tpl"] = reference.tokens_template(tree)
    out["charts/grpo-job/files/provisional.json"] = facts.lines_json(facts.provisional(root))
    out |= programs.render(root)
    out |= curves.render(root)
    out |= pages.render(Facts(root, reference.defaults(tree, "grpo-job")))
    return out


def rendered(root: Path) -> dict[str, str]:
    """Return the texts generated from rendered charts, which must be written first; raise RenderError on failure."""
    defaults = reference.defaults(sources.load(root), "grpo-job")
    return {name: tutorial.page(root, defaults, name=name) for name in tutorial.TEMPLATES}


def text(schema: Schema) -> str:
    """Return a schema as JSON text, formatted for the repository."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def check_defaults(chart: str, schema: Schema, defaults: Schema) -> None:
    """Raise SourceError if a default does not match its own schema; missing required keys are left to the user."""
    validator = jsonschema_rs.Draft7Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    problems = [
        f"{'.'.join(map(str, error.instance_path))}: the default does not match its own schema: {error.message}"
        for error in validator.iter_errors(defaults)
        if error.kind.name != "required"
    ]
    if problems:
        raise SourceError("\n".join(f"{chart}: {p}" for p in problems))


def stale(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the paths whose files are missing or differ from their texts."""
    return [p for p, t in texts.items() if not (root / p).is_file() or (root / p).read_text("utf-8") != t]


def left_over(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the paths of generated files that no longer have a source."""
    files = (root / facts.FOLDER).rglob("*.*")
    return sorted(path for each in files if (path := each.relative_to(root).as_posix()) not in texts)


def write(root: Path, texts: Mapping[str, str], changed: Sequence[str]) -> None:
    """Write the texts for these paths below the repository root."""
    for path in changed:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts[path], encoding="utf-8")


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return exit status 0, or 1 for stale files, 2 for source errors or a wrong command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="write every generated file")
    parser.add_argument("--check", action="store_true", help="write nothing; list stale files and exit 1")
    options = parser.parse_args(argv)
    changed: list[str] = []
    gone: list[str] = []
    try:
        for made in (outputs, rendered):
            texts = made(root)
            new = stale(root, texts)
            changed += new
            gone += left_over(root, texts) if made is outputs else []
            if not options.check:
                write(root, texts, new)
    except (SourceError, RenderError) as error:
        # Charts that are stale may refuse values that are right.
        if not (options.check and changed):
            print(error, file=sys.stderr)
            return error.exit_code
    if not options.check:
        for path in gone:
            (root / path).unlink()
    elif changed or gone:
        listed = [*changed, *(f"{path} (has no source)" for path in gone)]
        print("stale: " + ", ".join(listed) + f"\nrun `{COMMAND}` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
