"""Kubernetes quantities, such as `900Gi` and `500m`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from postrender.types import Json

_NUMBER: Final = frozenset("0123456789.")
_UNITS: Final = " kMGTPE"
# Longer numbers need not be exact.
_LONGEST: Final = 40
# 64GB, 1.5 TB and 900G, as people write them.
_BYTES: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))? ?([KMGT])i?b?", re.IGNORECASE)
_SMALLER: Final = {"T": "G", "G": "M", "M": "K"}


def quantity(value: Json) -> float | None:
    """Return a Kubernetes quantity as a number; None for anything else."""
    return None if isinstance(value, bool) else _read(str(value).strip(" "))


def whole(value: Json) -> int:
    """Return a quantity that is an integer, even if written as 8.0 or 8000m; 0 for anything else."""
    number = quantity(value)
    return int(number) if number and number.is_integer() else 0


def near(text: str) -> str:
    """Return the quantity with a 1024-based unit that is near a text such as 64GB or 1.5 TB; empty for other texts."""
    found = _BYTES.fullmatch(text.strip())
    if not found or not int(found[1] + (found[2] or "")):
        return ""
    number, part, unit = found[1], (found[2] or "").rstrip("0"), found[3].upper()
    if not part:
        return f"{number}{unit}i"
    smaller = 1024 * int(number + part) // 10 ** len(part)
    return f"{smaller}{_SMALLER[unit]}i" if unit in _SMALLER else ""


@lru_cache(maxsize=10_000)
def _read(text: str) -> float | None:
    """Parse a text; the result is cached, because thousands of nodes and pods have the same few texts."""
    number = text.rstrip("kKMGTPEim")
    unit = text[len(number) :]
    mantissa, e, exponent = number.lower().partition("e")
    is_number = set(mantissa) <= _NUMBER and mantissa.strip(".") and mantissa.count(".") <= 1
    power = exponent[1:] if exponent.startswith(("+", "-")) else exponent
    if not is_number or (e and not (power.isascii() and power.isdecimal())):
        return None
    if unit not in ("", "m", "Ki") and (unit[0] not in _UNITS or unit[1:] not in ("", "i")):
        return None
    base = 1024 if unit.endswith("i") else 1000
    factor = 1 if unit == "m" else base ** _UNITS.index(unit[:1].replace("K", "k") or " ")
    if len(text) > _LONGEST or (e and int(power) > _LONGEST):
        return float(number) * factor
    # Whole numbers first: 4.1 as a float is less than 4.1, and 4.1G is 4100M.
    whole, _, part = mantissa.partition(".")
    shift = (int(exponent) if e else 0) - len(part) - (3 if unit == "m" else 0)
    found = int(whole + part) * factor
    return float(found * 10**shift) if shift >= 0 else found / 10**-shift
