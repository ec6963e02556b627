"""The command `grpo init`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

import click

from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.commands.judge.lint import lint
from grpo.cli.output import write_lines
from grpo.helm import engines
from grpo.helm.stack import Stack
from grpo.manifests.needs import prerequisites
from grpo.manifests.needs.needed import Need
from grpo.start import next_steps, own_recipe, questions, recipes, shipped, site_file
from grpo.start import vendor as vendor_copies
from grpo.start.interview import Interview
from grpo.start.questions import Question
from grpo.start.recipes import Choice
from grpo.values import models
from postrender import output_file, paths
from postrender.errors import (
    EXIT_CANNOT_RUN,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EngineError,
    InstallationError,
    RenderError,
    UsageError,
)

# People edit these files, so that a file of an earlier run is not replaced either.
_NONE = b""
# The answers of these questions are too many for a line.
_DESCRIBED = {"accelerator": shipped.machines, "recipe": shipped.trainings}
# Answers with which a shell completes the words of an option that depend on another one.
_USUAL = {"platform": "gke-standard", "framework": "nemo-rl"}
# When the next commands can be run, by the exit code of the judgement.
_CONDITIONS = {
    EXIT_FINDINGS: ", when the findings are corrected",
    EXIT_CANNOT_RUN: ", when grpo lint can judge the charts",
}


def _options(function: Callable[..., int]) -> Callable[..., int]:
    """Add an option for each question."""
    for question in reversed((questions.MACHINE, *questions.MODEL, *questions.SITE)):
        function = click.option(
            question.flag, metavar="NAME", shell_complete=_completing(question), help=_help(question)
        )(function)
    return function


def _help(question: Question) -> str:
    known = question.choices(_USUAL) if question.choices and not question.is_shipped else ()
    fix = "" if question.fix == Question.fix else f" {question.fix[:1].upper()}{question.fix[1:]}."
    return f"{question.what}{': ' if known else ''}{', '.join(known)}.{fix}"


def _completing(question: Question) -> options.Complete | None:
    choices = question.choices
    return options.completing(lambda: choices(_USUAL)) if choices else None


@click.command(
    cls=Command,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "grpo init",
        "grpo init --list",
        "grpo init --accelerator b200 --model Qwen/Qwen2.5-7B-Instruct --dataset gsm8k",
        "grpo init --yes --accelerator eks-h200 --recipe smoke --claim shared",
        "grpo init --vendor --accelerator b200 --recipe smoke",
    ),
)
@click.option(
    "--recipe",
    metavar="NAME",
    shell_complete=options.completing(lambda: [recipe.name for recipe in recipes.shipped()]),
    help="Recipe. With --model: the recipe to start from.",
)
@click.option("--model", metavar="OWNER/NAME", help="Model on the Hugging Face hub, instead of a recipe.")
@_options
@click.option("--framework-version", metavar="VERSION", help="Version of the framework. Default: that of the recipe.")
@click.option("--model-config", type=options.FILE, metavar="FILE", help="The config.json of a model of unknown size.")
@options.namespace("Namespace of the stack. Default: rl.")
@click.option(
    "--output",
    type=options.OUTPUT,
    metavar="FILE",
    default="my-site.yaml",
    show_default=True,
    help="Site file to write. No file is ever overwritten.",
)
@click.option(
    "--recipe-output",
    type=options.OUTPUT,
    metavar="FILE",
    help="Recipe to write for --model. Default: STACK-recipe.yaml.",
)
@click.option(
    "--vendor",
    type=options.OUTPUT,
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="For Git: copy charts, profile and recipe too, into DIR or the folder of the site file. Where the site file"
    " is, only compare the copies with this version.",
)
@options.helm
@click.option(
    "--list", "is_list", is_flag=True, help="Print the machines and recipes that there are, and write nothing."
)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask: take the default of what no option gives. With --vendor and a site file: write missing copies.",
)
def init(
    recipe: str | None,
    model: str | None,
    framework_version: str | None,
    model_config: str | None,
    namespace: str | None,
    output: str,
    recipe_output: str | None,
    vendor: str | None,
    helm: str | None,
    *,
    is_list: bool,
    yes: bool,
    **given: str | None,
) -> int:
    """Write the values files of a new stack, and judge them.

    On a terminal, the command asks for whatever no option gives and cannot be guessed. It writes a site file with
    comments. For a model that no recipe trains, it also writes a recipe: a copy of the recipe for the most similar
    model, with the new name and a list of what to check. Then it judges the stack as grpo lint does, and prints the
    next commands. If Helm cannot run, the files are written and the values judged, but not the charts, and the exit
    code is 3.

    No file that it writes names a folder on this machine. With --vendor, the charts, the profile and the recipe are
    copied beside the site file, and the printed commands run in every clone of the repository. A copy that differs is
    never replaced. Run grpo init --vendor again, in CI and with a newer grpo: it then asks nothing and writes nothing,
    but names what differs or is missing, and the exit code is 1 if anything does.
    """
    if is_list:
        told = [
            "Machines:",
            *shipped.lines(shipped.machines()),
            "",
            "Recipes:",
            *shipped.lines(shipped.trainings()),
            "",
        ]
        sys.stdout.write("\n".join(told))
        return EXIT_CLEAN
    folder = None if vendor is None else vendor or os.path.dirname(output) or os.curdir
    answered = (recipe, model, framework_version, model_config, recipe_output, *given.values())
    if folder is not None and os.path.isfile(output) and not any(answered):
        return _compared(folder, output, yes=yes)
    output_file.refuse(output, mark=_NONE)
    _add(model, model_config)
    interview, choice = _interview({"recipe": recipe, "model": model, **_named(given)}, yes=yes)
    answers = interview.answers
    trained = (recipe_output or f"{answers['stack']}-recipe.yaml") if choice.own else paths.shown(choice.recipe.path)
    files = [paths.accelerator(answers["accelerator"]), trained, *_version(choice, framework_version), output]
    if choice.own:
        output_file.refuse(trained, mark=_NONE)
    copies = (
        None if folder is None else vendor_copies.compare(folder, [each for each in files if paths.is_packaged(each)])
    )
    if copies:
        copies.refuse_changed()
        files = [copies.path(each) if paths.is_packaged(each) else os.path.relpath(each) for each in files]
        sys.stderr.write(f"{copies.write()}\n")
    else:
        files = [paths.local(each) for each in files]
    schema = copies.schema if copies else paths.editors_schema()
    if choice.own:
        _write(trained, own_recipe.text(choice, _schema(schema, trained)))
    _write(output, site_file.text(answers, schema=_schema(schema, output), files=files))
    _explain(interview, choice, trained)
    shown = namespace or "rl"
    code: int = click.get_current_context().invoke(
        lint, files=files, accelerator=None, helm=helm, namespace=shown, model_config=model_config
    )
    heading = f"Next{_CONDITIONS.get(code, '')}:"
    needs = _needs(files, helm, shown)
    sys.stdout.write("\n".join(["", heading, "", *next_steps.lines(files, answers, shown, needs), ""]))
    return code


def _compared(folder: str, site: str, *, yes: bool) -> int:
    """Report how a folder's copies differ from this version; with `yes`, write the missing ones if no copy differs."""

    def command(place: str, *words: str) -> str:
        return shlex.join(["grpo", "init", "--vendor", place, "--output", site, *words])

    named = vendor_copies.of_site(site)
    if named and os.path.realpath(named) != os.path.realpath(folder):
        raise wrong(f"{site} names the copies in {named}, not those in {folder}", fix=command(named))
    copies = vendor_copies.compare(folder)
    if yes and not copies.changed and not copies.foreign:
        write_lines([copies.write()])
        return EXIT_CLEAN
    told = [*copies.differences(command(folder, "--yes"))]
    write_lines(told or [copies.same()])
    return EXIT_FINDINGS if told else EXIT_CLEAN


def _needs(files: Sequence[str], helm: str | None, namespace: str) -> Sequence[Need] | None:
    """Return what must exist before the stack is installed, or None if nothing can be rendered."""
    try:
        with engines.choose(helm) as engine:
            return prerequisites.of_stack(Stack.load(files), engine, namespace).needs
    except (EngineError, InstallationError, RenderError):
        return None


def _add(model: str | None, config: str | None) -> None:
    """Add a model's config.json, if one is given."""
    if config and not model:
        raise wrong("--model-config needs --model", fix="grpo init --model OWNER/NAME --model-config config.json")
    if config and model:
        models.add(model, config)


def _explain(interview: Interview, choice: Choice, trained: str) -> None:
    """Print which defaults were used, and why this recipe was chosen."""
    for line in interview.defaults():
        sys.stderr.write(f"default: {line}\n")
    sys.stderr.write(f"recipe: {choice.recipe.name} ({choice.why})\n")
    if other := recipes.elsewhere(choice):
        sys.stderr.write(f"{other}\n")
    if choice.own:
        sys.stderr.write(f"check what the top of {trained} lists: {own_recipe.scale(choice)}\n")


def _named(given: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name.replace("_", "-"): value for name, value in given.items()}


def _interview(given: Mapping[str, str | None], *, yes: bool) -> tuple[Interview, Choice]:
    """Collect all answers; raise UsageError if one is missing and there is nobody to ask."""
    # stdin is None if the shell has closed it (<&-).
    watched = sys.stdin is not None and sys.stdin.isatty() and not yes
    interview = Interview(given, _ask if watched else None)
    try:
        choice = interview.run()
    except UsageError as error:
        raise wrong(error.message, fix=error.fix) from error
    if interview.missing or choice is None:
        flags = ", ".join(interview.missing)
        reason = "" if yes else ", and standard input is no terminal to ask on"
        raise wrong(f"{flags} {'is' if len(interview.missing) == 1 else 'are'} missing{reason}", fix=_fix(flags))
    if not watched and not yes:
        raise wrong("standard input is no terminal to ask on", fix="add --yes, which takes the defaults of the rest")
    return interview, choice


def _fix(flags: str) -> str:
    return f"give {flags} and --yes; grpo init --help explains them"


def _ask(question: Question, default: str, known: Sequence[str], refusal: Callable[[str], str]) -> str:
    """Ask until an answer is valid; raise KeyboardInterrupt if the user quits."""

    def checked(text: str) -> str:
        if not text:
            raise click.UsageError("this has no default: an answer is needed")
        if why := refusal(text):
            raise click.UsageError(why)
        return text

    if question.name in _DESCRIBED:
        click.echo("\n".join(shipped.lines(_DESCRIBED[question.name]())), err=True)
    words = f" ({', '.join(known)})" if known and question.name not in _DESCRIBED else ""
    try:
        return str(
            # Without a default, click would ask again without a word.
            click.prompt(
                f"{question.what}{words}", default=default, show_default=bool(default), value_proc=checked, err=True
            )
        )
    except click.Abort as left:
        raise KeyboardInterrupt from left


def _version(choice: Choice, version: str | None) -> Sequence[str]:
    """Return the values file that switches the recipe to another framework version, if one was requested."""
    if version in (None, choice.recipe.version):
        return []
    known = paths.frameworks(choice.recipe.framework)
    if version not in known:
        listed = ", ".join(sorted([*known, choice.recipe.version]))
        raise wrong(f"--framework-version is {version!r}, expected one of {listed}", near=version or "", known=[*known])
    return [known[version]]


def _schema(schema: str, file: str) -> str:
    """Return the schema's path relative to a file, for an editor; empty if that path works only on this machine."""
    root, folder = (os.path.dirname(os.path.dirname(os.path.abspath(schema))), os.path.dirname(os.path.abspath(file)))
    is_near = root != paths.data_root() or os.path.commonpath([root, folder]) == root
    return os.path.relpath(schema, folder) if is_near else ""


def _write(file: str, text: str) -> None:
    output_file.write(file, text.encode(), mark=_NONE)
    sys.stderr.write(f"written: {file}\n")
