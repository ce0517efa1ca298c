"""How records of the internal topics are written: compact JSON, the values with a version."""

from __future__ import annotations

import json
from typing import Any

VERSION = 1


def write(value: Any) -> str:
    """Writes a key or a value."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
