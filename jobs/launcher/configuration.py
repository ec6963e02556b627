"""Write the framework's configuration."""

from __future__ import annotations

import json
import re

from runtime import Record


def to_yaml(config: Record) -> str:
    """Return JSON that YAML 1.1 parsers read as the same types and values."""
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False)
    # YAML 1.1 reads 3e-07 as a string: the mantissa needs a point. Quoted strings are matched first and kept.
    text = re.sub(r'("(?:[^"\\]|\\.)*(?:"|\Z))|(?<![\d.])(\d)(e[-+])', lambda m: m[1] or f"{m[2]}.0{m[3]}", text)
    return re.sub("[^\n -~\u00a1-\u1fff\u3001-\ud7ff]", lambda m: f"\\U{ord(m[0]):08x}", text) + "\n"
