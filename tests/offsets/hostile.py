"""Records that were ours until somebody changed a bit, a type, a number, the nesting or the length."""

from __future__ import annotations

import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, "", "x", "7", -2, 0, 2**31, 2**63, -(2**63), 10**400, 1.5, float("inf"), float("nan"),
    [], {}, [[]], {"v": 1}, "\ud800", "\0", "ä" * 300, [1, 2], [-1, -1, -1], "AAAA",
)  # fmt: skip
"""What stands in the place of something else."""

DEEP = ("[" * 3_000, "[" * 3_000 + "]" * 3_000, '{"a":' * 3_000)


def changed(part: bytes, chance: random.Random) -> bytes:
    """A key or a value with one or two changes."""
    for _ in range(chance.randint(1, 2)):
        part = chance.choice((_another_tree, _another_tree, _another_tree, _bit, _cut, _spliced))(part, chance)
    return part


def _another_tree(part: bytes, chance: random.Random) -> bytes:
    try:
        tree = json.loads(part)
    except (ValueError, RecursionError):
        return _bit(part, chance)
    if chance.random() < 0.02:
        return chance.choice(DEEP).encode()
    return json.dumps(_in_tree(tree, chance), separators=(",", ":")).encode()


def _in_tree(tree: Any, chance: random.Random) -> Any:
    """The tree with one place changed: another value, one less, one twice."""
    if not isinstance(tree, (list, dict)) or not tree or chance.random() < 0.1:
        return chance.choice(ODD)
    at = chance.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    if chance.random() < 0.1:
        del tree[at]
    elif isinstance(tree, list) and chance.random() < 0.1:
        tree.insert(at, tree[at])
    else:
        tree[at] = _in_tree(tree[at], chance)
    return tree


def _bit(part: bytes, chance: random.Random) -> bytes:
    if not part:
        return b"\xff"
    bits = bytearray(part)
    bits[chance.randrange(len(bits))] ^= 1 << chance.randrange(8)
    return bytes(bits)


def _cut(part: bytes, chance: random.Random) -> bytes:
    return part[: chance.randint(0, len(part))]


def _spliced(part: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(part))
    return part[:at] + chance.choice((b"\xff\xfe", b"\0", b"[", b'"', b"1e400", b"9" * 5_000)) + part[at:]
