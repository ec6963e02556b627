r"""Read answers: the text without its LaTeX and Markdown, and the number that it states.

The rewards and task prepare-data share this module. Every regular expression runs in linear time, because a model
may write anything.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

MONEY = {"$": "dollar", "usd": "dollar", "\u20ac": "euro", "eur": "euro", "\u00a3": "pound", "gbp": "pound"}
# A text is longer than an answer; numbers of more digits are compared as text.
LONGEST = 500

_WRAPPED = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox)\s?\{([^{}\\]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s?(?:\{(\d+)\}|(\d))\s?(?:\{(\d+)\}|(\d))")
_BOLD = re.compile(r"(?<!\w)\*\*([^*]+)\*\*(?!\w)")
_SIGNS = (
    (re.compile(r"\\(?:left|right|displaystyle|!)(?![A-Za-z])"), ""),
    (re.compile(r"\\(?:[,;: ()\[\]]|q?quad(?![A-Za-z]))|~"), " "),
    (re.compile(r"\^\s?(?:\\circ|\{\\circ\})|\\degree(?![A-Za-z])"), "\u00b0"),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])|\u00d7"), "*"),
    (re.compile("[\u2212\u2013]"), "-"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=[A-Za-z]) ?\^ ?(?:2|\{2\})(?!\d)"), "\u00b2"),
    (re.compile(r"(?<=[A-Za-z]) ?\^ ?(?:3|\{3\})(?!\d)"), "\u00b3"),
)
_INTRODUCTION = re.compile(
    r"(?:(?:so|thus|hence|therefore),? )?(?:the )?(?:final |correct )?answer(?: is:?|:| ?=) ?", re.IGNORECASE
)

# The groups of a thousand are separated by a comma, an apostrophe or a space.
_NUMBER = re.compile(
    r"(?:(?P<sign>[-+]) ?)?(?:(?P<money>[$\u20ac\u00a3]) ?)?(?P<inner>[-+]?)(?:"
    r"(?:(?P<whole>\d+) )?(?P<above>\d+) ?/ ?(?P<below>\d+)"
    r"|(?P<digits>(?:\d{1,3}(?:[,' ]\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
    r"(?: ?[*x] ?10 ?\^ ?\{?(?P<power>[-+]?\d{1,3})\}?(?!\d)|[eE](?P<exponent>[-+]?\d{1,3})(?![\da-zA-Z]))?"
    r")"
)
_ARITHMETIC = re.compile(r"(?=\D*\d)[\d\s.,+*/()$=-]*")
_BEFORE = re.compile(r"(?:[^\W\d_\u00b2\u00b3]|[\s:,;.'\u2019\"(-])*=?\s?")
# Behind another word, a sign subtracts.
_BEFORE_SIGN = re.compile(r"(?:[:=(]|\b(?:is|was|are|equals|at|of|to)) *$")
_AFTER = re.compile(r"(?:[^\W\d_\u00b2\u00b3]|[\s/.,;:'\u2019\")(%\u00b0$\u20ac\u00a3\u00b2\u00b3-])*")
# With one of these, the text states another number, or none.
_CHANGED_BEFORE = re.compile(
    r"\b(?:not|no|never|isn|isnt|than|least|most|between|either|or|under|over|above|below|up|half|twice|double|triple"
    r"|minus|negative|plus|times|root|sqrt|log|ln|sin|cos|tan|wrong)\b"
)
_CHANGED_AFTER = re.compile(
    r"\b(?:(?:hundred|thousand|million|billion|trillion|dozen|quarter|third|fourth|fifth)s?|mn|mln|bn|and|or|half|plus"
    r"|minus|times|squared|cubed|factorial|root|below|pi|sqrt|log|percentile|wrong|a$)\b"
)
# Other single letters are variables, or factors such as k.
_LETTERS = "amgshlwvjcf"
_VARIABLES = re.compile("[abknxyzKMB]{1,3}(?![A-Za-z])")


class Quantity(NamedTuple):
    """A number with its unit in lower case ("" without a unit), and the number in plain digits."""

    value: Fraction
    unit: str
    digits: str


def clean(text: str) -> str:
    """Return an answer in plain characters, without common surroundings: delimiters, spacing, emphasis."""
    before = ""
    while before != text and len(text) <= 2 * LONGEST:
        before, text = text, _WRAPPED.sub(r" \1 ", text)
    for sign, replacement in _SIGNS:
        text = sign.sub(replacement, text)
    text = _FRACTION.sub(lambda found: " {}/{}".format(*(each for each in found.groups() if each)), text)
    # A single dollar sign is a currency; two of them delimit mathematics.
    text = text if text.count("$") - text.count(r"\$") == 1 else re.sub(r"(?<!\\)\$", "", text)
    text = " ".join(_BOLD.sub(r"\1", text.replace(r"\$", "$")).split())
    text = text.strip(" *`\"'").rstrip(".*`\"'").strip()
    introduced = _INTRODUCTION.match(text)
    text = text[introduced.end() :].strip(" *`") if introduced else text
    inside = re.fullmatch(r"\(([^(),]*)\)", text)
    return inside[1].strip() if inside else text


def read(text: str) -> Quantity | None:
    """Return the number that a cleaned text states; None if it states no number, several, or more than a number."""
    if len(text) > LONGEST:
        return None
    calculated = text.rpartition("=")
    if calculated[1] and _ARITHMETIC.fullmatch(calculated[0]):
        text = calculated[2].strip()
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) != 1:
        return None
    found = numbers[0]
    before, after = text[: found.start()], text[found.end() :]
    unit = _unit(found["money"], after)
    if unit is None or not _introduces(before, signed=bool(found["sign"])):
        return None
    return _quantity(found, unit)


def _quantity(found: re.Match[str], unit: str) -> Quantity | None:
    sign = ((found["sign"] or "") + found["inner"]).replace("+", "")
    if (found["sign"] and found["inner"]) or (found["above"] and not int(found["below"])):
        return None
    if found["above"]:
        digits = f"{found['above']}/{found['below']}"
        value = int(found["whole"] or 0) + Fraction(int(found["above"]), int(found["below"]))
    else:
        digits = re.sub("[,' ]", "", found["digits"])
        digits += f"e{power}" if (power := found["power"] or found["exponent"]) else ""
        value = Fraction(digits)
    return Quantity(-value if sign else value, unit, sign + digits)


def _introduces(before: str, *, signed: bool) -> bool:
    """Return whether the text before a number only introduces it: The total is 72, x = 72."""
    before = re.sub(r"^[A-Za-z] ?= ?", "", before)
    if not before:
        return True
    words = re.findall(r"[^\W\d_]+", before.casefold())
    letters = any(len(word) == 1 and word not in "ai" for word in words)
    if before[-1].isalnum() or letters or (signed and not _BEFORE_SIGN.search(before)):
        return False
    return bool(_BEFORE.fullmatch(before)) and not _CHANGED_BEFORE.search(before.casefold())


def _unit(money: str | None, after: str) -> str | None:
    """Return the unit that follows a number; None if what follows changes the number."""
    words = re.findall(r"[^\W\d_]+", after.casefold())
    letters = any(len(word) == 1 and word.isascii() and word not in _LETTERS for word in words)
    greek = re.search("[\u0370-\u03ff]", after)
    if (
        not _AFTER.fullmatch(after)
        or letters
        or greek
        or _CHANGED_AFTER.search(after.casefold())
        or _VARIABLES.match(after)
    ):
        return None
    text = re.sub(r"per ?cent\b|pct\b", "%", after.casefold())
    if "%" in text:
        return "%"
    first = (text.replace("(", " ").replace(")", " ").split() or [""])[0].strip(".,;:'\u2019-")
    return MONEY.get(money or "") or MONEY.get(first) or {"pounds": "pound"}.get(first, first.removesuffix("s"))


def final_answer(solution: object) -> str:
    """Return the number after the last ####, without commas and currency signs, or an empty text."""
    marked = str(solution).rpartition("####")
    found = read(clean(marked[2])) if marked[1] else None
    # verl compares texts, and a reward reads an answer without a unit in the unit of the truth.
    if not found or found.unit not in ("", *MONEY.values()) or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", found.digits):
        return ""
    return found.digits


def same(truth: Quantity, answer: Quantity) -> bool:
    """Return whether two quantities are equal; an answer may omit the unit, or add one that the truth lacks."""
    if answer.unit == truth.unit or not answer.unit:
        return answer.value in (truth.value, *([truth.value / 100] if truth.unit == "%" and not answer.unit else []))
    if answer.unit == "%":
        return not truth.unit and answer.value / 100 == truth.value
    return not truth.unit and answer.value == truth.value
