"""Get the answers to the questions of `init` from the command line, from a person, or from the defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from grpo.start import questions, recipes
from grpo.start.questions import Question
from grpo.start.recipes import Choice
from postrender.errors import UsageError

# Asks a person a question, with a default, the known answers if there are such, and what refuses an answer.
Ask = Callable[[Question, str, Sequence[str], Callable[[str], str]], str]

_MODEL = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*/[-A-Za-z0-9_.]+")
_RECIPE = Question("recipe", "Recipe, or the name of a model on the Hugging Face hub (OWNER/NAME)")
_NEITHER = "--recipe or --model"


class Interview:
    """The answers so far, by question name.

    `given` are the command line's answers. `ask` is None if there is nobody to ask: then `missing` lists the options
    without a default, and `taken` the questions answered by their default.
    """

    def __init__(self, given: Mapping[str, str | None], ask: Ask | None) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._ask = ask
        # The options that give an answer in place of that of their question.
        self._flags: dict[str, str] = {}
        self.answers: dict[str, str] = {}
        self.missing: list[str] = []
        self.taken: list[Question] = []

    def run(self) -> Choice | None:
        """Get all answers; return the chosen recipe, None if it is missing. Raises UsageError if an answer is wrong."""
        self._put(questions.MACHINE)
        choice = self._choice()
        self.answers |= {"recipe-stack": choice.stack, "recipe-run": choice.run} if choice else {}
        if "storage" not in self._given and (named := questions.storage_of(self._given)):
            self._flags["storage"], self._given["storage"] = named
        for question in questions.SITE:
            self._put(question)
        self._refuse_without_effect()
        return choice

    def _put(self, question: Question) -> None:
        """Get the answer to one question, if it is still open."""
        if not question.needed(self.answers):
            return
        default = question.default(self.answers)
        if question.name in self._given:
            answer = self._given.pop(question.name)
            if refusal := question.refusal(answer, self.answers):
                flag = self._flags.get(question.name, question.flag)
                raise UsageError(f"{flag}: {refusal}", fix=question.fix)
        elif self._ask and question.asked:
            known = question.choices(self.answers) if question.choices else ()
            answer = self._ask(question, default, known, lambda text: question.refusal(text, self.answers))
        else:
            answer = default
            if default:
                self.taken.append(question)
            else:
                self.missing.append(question.flag)
        self.answers[question.name] = question.meant(answer) if answer else answer

    def _choice(self) -> Choice | None:
        """Return the recipe to train with or, for a model that no recipe trains, the recipe to start from."""
        recipe, model = self._given.pop("recipe", None), self._given.pop("model", None)
        if not recipe and not model:
            if not self._ask:
                self.missing.append(_NEITHER)
                return None
            word = self._ask(_RECIPE, "", (), _refusal_of_either)
            recipe, model = (None, word) if "/" in word else (word, None)
        for flag, name, refused in (("--recipe", recipe, _refusal_of_recipe), ("--model", model, _refusal_of_model)):
            if name and (refusal := refused(name)):
                raise UsageError(f"{flag}: {refusal}", fix="see grpo init --help")
        if recipe:
            named = next(each for each in recipes.shipped() if each.name == recipe)
            framework = self._given.pop("framework", named.framework)
            if framework != named.framework:
                what = f"--framework is {framework}, and the recipe {recipe} is one of {named.framework}"
                raise UsageError(what, fix="remove --framework, or choose another recipe: grpo init --list")
            return Choice(named, model or named.model, "you named it")
        for question in questions.MODEL:
            self._put(question)
        return recipes.nearest(model or "", self.answers["framework"], self.answers["dataset"])

    def _refuse_without_effect(self) -> None:
        """Reject an option whose question does not arise, for instance --bucket with a claim."""
        for question in (*questions.MODEL, *questions.SITE):
            if question.name in self._given:
                raise UsageError(f"{question.flag} has no effect with the other options", fix=f"remove {question.flag}")

    def defaults(self) -> Iterator[str]:
        """Yield a line for each default that was used, with the option that changes it."""
        for question in self.taken:
            yield f"{question.flag} {self.answers[question.name]}"


def _refusal_of_model(word: str) -> str:
    """Return why a word is not a model name; an empty text if it is."""
    wanted = "OWNER/NAME of a model on the hub (docs/howto/own-model.md has a model on a volume)"
    return "" if _MODEL.fullmatch(word) else f"{word!r} is not {wanted}"


def _refusal_of_recipe(word: str) -> str:
    """Return why a word is not a recipe name; an empty text if it is."""
    known = [recipe.name for recipe in recipes.shipped()]
    if word in known:
        return ""
    name = os.path.basename(word).removesuffix(".yaml")
    near = f"; give its name, {name}" if name in known else questions.suggestion(word, known)
    return f"{word!r} is not one of the recipes {', '.join(known)}{near}"


def _refusal_of_either(word: str) -> str:
    """Return why a word is neither a recipe name nor a model name; an empty text if it is one."""
    no_recipe = _refusal_of_model(word) and _refusal_of_recipe(word)
    return f"neither a model, OWNER/NAME, nor a recipe: {no_recipe}" if no_recipe else ""
