"""Fill in a template from docs/ with a stack's names, for `grpo guide` and for the example stack's pages.

The commands are computed from the values files, so a name that changes there also changes on the page. Shell
variables on the page hold what is in no values file (region, zone, name of the GKE cluster).

The template has three forms: `{{name}}` is a name, `{{#flag}} … {{/flag}}` a part for some stacks, and `{{^flag}} …
{{/flag}}` a part for the others. `{{step_NAME}}` in a heading is a step's number.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from grpo.lint import linter
from grpo.manifests.needs.prerequisites import Prerequisites
from grpo.start import names, training
from grpo.start.names import Shown
from grpo.start.words import GuideError, Tree
from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import paths, textfile
from postrender.values import merge
from postrender.wiring import platform

_WIDTH = 120
_ALONE = re.compile(r"^(\{\{[#^/]\w+\}\})\n", re.MULTILINE)
_PART = re.compile(r"\{\{([#^])(\w+)\}\}(.*?)(?:\{\{/\2\}\}|\Z)", re.DOTALL)
_NAME = re.compile(r"\{\{(\w+)\}\}")
_STEP = re.compile(r"^## \{\{(step_\w+)\}\}", re.MULTILINE)


def of_files(
    files: Sequence[str],
    namespace: str,
    arguments: Sequence[Argument] = (),
    *,
    template: str = "",
    prerequisites: Callable[[], Prerequisites],
) -> str:
    """Return the page for the stack of these values files and --set arguments.

    `template` is the path of the page's template, by default the tutorial's. `prerequisites` is called only if the
    values can have a page. Raises what `render`, merge.load, platform.check and rendering raise.
    """
    given = set_arguments.apply(merge.load(files), arguments)
    tree = merge.over_defaults(given)
    platform.check(tree, given)
    recipe, text = recipe_of(files, tree)
    listed = tuple(paths.shown(file) for file in files)
    charts = paths.shown(paths.charts_of(files))
    shown = Shown(listed, charts, recipe, text, namespace, arguments=tuple(arguments))
    names.names(tree, shown)  # It refuses what the page has no steps for, before anything is rendered.
    return render(_text(template or paths.guide()), tree, shown._replace(prerequisites=prerequisites()))


def render(template: str, tree: Tree, shown: Shown) -> str:
    """Return the page for a stack, given its values over the charts' defaults.

    Raises GuideError if the page has no steps for a part of the stack, or if the template has an unknown name.
    """
    found = names.names(tree, shown)
    return filled(template, names.flags(tree, shown), found)


def recipe_of(files: Sequence[str], tree: Tree) -> tuple[str, str]:
    """Return the first file that says what is trained in which image, and the comment at its top.

    The comment is empty if the run, whose values are `tree`, differs from the file's: in its model, data or rewards.
    Raises GuideError if no file is a recipe, and what merge.load raises.
    """
    for file in files:
        alone = merge.load([file])
        if linter.has_recipe(alone):
            is_same = training.is_same(tree, merge.over_defaults(alone))
            return file, _comment(_text(file)) if is_same else ""
    raise GuideError("none of the files is a recipe", fix="add -f RECIPE.yaml after the profile")


def _text(file: str) -> str:
    return textfile.read_bytes(file).decode("utf-8")


def _comment(text: str) -> str:
    """Return the lines before the first value in a values file."""
    return "\n".join(
        itertools.takewhile(lambda line: line.strip() in ("", "---") or line.lstrip()[0] == "#", text.splitlines())
    )


def filled(template: str, flags: Mapping[str, bool], found: Mapping[str, str]) -> str:
    """Return the template with its parts selected, its names filled in and its paragraphs wrapped."""
    unknown = {name for _, name, _ in _PART.findall(template)} - set(flags)
    page = _chosen(_ALONE.sub(r"\1", template), flags) if not unknown else template
    steps = {name: str(number) for number, name in enumerate(_STEP.findall(page), 1)}
    known = {**found, **steps}
    unknown |= set(_NAME.findall(page)) - set(known)
    if unknown:
        raise GuideError(f"the template of the page: nothing is called {', '.join(sorted(unknown))}")
    return wrapped(_NAME.sub(lambda match: known[match[1]], page))


def _chosen(page: str, flags: Mapping[str, bool]) -> str:
    """Keep the parts for this stack; nested parts are selected after the part that contains them."""
    while (chosen := _PART.sub(lambda part: part[3] if flags[part[2]] == (part[1] == "#") else "", page)) != page:
        page = chosen
    return re.sub(r"\n{3,}", "\n\n", page)


def wrapped(page: str) -> str:
    """Rewrap the page's paragraphs, because names vary in length."""
    parts = re.split(r"(^```.*?(?:^```\n|\Z))", page, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(parts), 2):
        paragraphs = parts[number].split("\n\n")
        parts[number] = "\n\n".join(one if re.match(r"\s*(#|\||- |$)", one) else _fill(one) for one in paragraphs)
    return "".join(parts)


def _fill(paragraph: str) -> str:
    # What a part of the template leaves out has left its blanks.
    text = textwrap.fill(" ".join(paragraph.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
    start = paragraph[: len(paragraph) - len(paragraph.lstrip("\n"))]
    return start + text.strip() + paragraph[len(paragraph.rstrip("\n")) :]
