"""Write every generated file, or say which are stale: `python -m postrender.docs [--check]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# At build time, for its RE2-like engine of patterns, which postrender.schema does not offer.
import jsonschema_rs

from postrender.docs import custom, precomputed, reference, rulepages, sanity, schemas, sources, tutorial
from postrender.docs.files import ROOT
from postrender.docs.sources import CHARTS, Schema, SourceError
from postrender.kinds import Kinds

COMMAND = "python -m postrender.docs"


def outputs(root: Path) -> dict[str, str]:
    """Return the text of each generated file by its path below the repository root.

    Raises SourceError where the sources are not fit to generate from.
    """
    tree = sources.load(root)
    problems = list(sanity.check(tree))
    if problems:
        raise SourceError("\n".join(problems))
    kinds = Kinds()
    kubernetes: Mapping[str, Schema] = {name: kinds.definition(name) for name in kinds.definitions()}
    out = {"schemas/kinds/custom.json": custom.render(root, kubernetes)}
    for chart in CHARTS:
        schema = schemas.bundle(tree, chart, kubernetes)
        check_defaults(chart, schema, reference.defaults(tree, chart))
        out[f"charts/{chart}/values.schema.json"] = text(schema)
        out[f"charts/{chart}/values.yaml"] = reference.values_yaml(tree, chart)
    whole = schemas.bundle(tree, "grpo-job", kubernetes)
    out["schemas/values.schema.json"] = text(schemas.for_editors(whole))
    out["schemas/plain.schema.json"] = text(schemas.plain(whole))
    out["charts/common/templates/_tokens.tpl"] = reference.tokens_template(tree)
    out["docs/values.md"] = reference.markdown(tree)
    out[precomputed.PATH] = precomputed.render(tree)
    out[tutorial.PAGE] = tutorial.render(root)
    return out | rulepages.render(root)


def text(schema: Schema) -> str:
    """Return a schema as it is committed."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def check_defaults(chart: str, schema: Schema, defaults: Schema) -> None:
    """Raise SourceError where a default does not fit its own schema; what is merely missing is the user's to give."""
    validator = jsonschema_rs.Draft7Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    problems = [
        f"{'.'.join(map(str, error.instance_path))}: the default does not fit its own schema: {error.message}"
        for error in validator.iter_errors(defaults)
        if error.kind.name != "required"
    ]
    if problems:
        raise SourceError("\n".join(f"{chart}: {p}" for p in problems))


def stale(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the paths whose file is missing or differs from its text."""
    return [p for p, t in texts.items() if not (root / p).is_file() or (root / p).read_text("utf-8") != t]


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; exit status 0, 1 for stale files, 2 for sources that are not fit or a bad command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="write every generated file")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and list what is stale")
    options = parser.parse_args(argv)
    try:
        texts = outputs(root)
    except SourceError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    changed, gone = stale(root, texts), rulepages.left_over(root, texts)
    if not options.check:
        for path in changed:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(texts[path], encoding="utf-8")
        for path in gone:
            (root / path).unlink()
    elif changed or gone:
        print("stale: " + ", ".join((*changed, *gone)) + f"\nrun `{COMMAND}` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
