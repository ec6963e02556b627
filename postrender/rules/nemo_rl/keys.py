"""The keys that NeMo RL reads."""

from __future__ import annotations

from postrender.rules import keys
from postrender.rules.nemo_rl import book

_book = book()
RULES = _book.rules
keys.add(_book, "nemo_rl/utils/config.py:137 at v0.7.0")
