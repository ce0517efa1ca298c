"""Names and errors of clusters as parts of Markdown: as text, as code, as cells of a table.

Invariant: whatever they hold, a reader sees their characters, and none of them makes an image, a link, HTML, a heading,
emphasis or a cell; nor does a page that has users, issues and emojis tell somebody, or refer to something, because of
them. Such pages look for these words when the Markdown is rendered, so no backslash keeps them off: what they look for
is code, which they leave alone.

References: CommonMark 0.31, section 2.4 (backslash escapes) and 6.1 (code spans); GitHub Flavored Markdown 0.29,
sections 4.10 (tables), 6.9 (bare addresses)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_MARKUP = re.compile(
    r"[\\`*\[\]~&$<]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # within a word it is no emphasis
    r"|:(?=//)|\.(?<=[wW]{3}\.)"  # an address without brackets is a link on some pages
)
_SPOKEN = re.compile(
    r"("
    r"(?<![A-Za-z0-9])@[A-Za-z0-9_][A-Za-z0-9._/@#!+-]*"  # somebody is told
    r"|(?<![A-Za-z0-9._/+-])[A-Za-z0-9._/+-]+@[0-9A-Fa-f]{7,40}(?![A-Za-z0-9])"  # a commit of somebody's repository
    r"|(?<![A-Za-z0-9._+-])(?:(?i:mailto|xmpp):)?[A-Za-z0-9._+-]+@[A-Za-z0-9_-]+\.[A-Za-z0-9._/@#!+-]*"  # an address
    r"|(?<![A-Za-z0-9._/-])[A-Za-z0-9._/-]*[#!][0-9][A-Za-z0-9._/@#!+-]*"  # an issue or a request gets a reference
    r"|(?<![A-Za-z0-9])(?i:gh)-[0-9]+(?![A-Za-z0-9])"  # the same
    r"|(?<![A-Za-z0-9])[0-9A-Fa-f]{40}(?![A-Za-z0-9])"  # a commit
    r"|:(?!(?!100:|1234:)[0-9]+:)[A-Za-z0-9_+-]+:(?:[A-Za-z0-9_+:-]*:)?"  # a picture; a port is none
    r")"
)
_BEGIN = re.compile(r"(\s*)(?:([-+=#>])|(\d{1,9})([.)])(?=\s|$))")


def literal(text: str) -> str:
    """A text in which nothing is markup."""
    parts = _SPOKEN.split(text)
    escaped = "".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts))
    return _BEGIN.sub(_begun, escaped, count=1) if _BEGIN.match(escaped) else escaped


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", text)


def _begun(found: re.Match[str]) -> str:
    """What would begin a heading, a quotation or a list."""
    blank, sign, number, end = found.groups()
    return f"{blank}\\{sign}" if sign else f"{blank}{number}\\{end}"


def code(text: str) -> str:
    """A text as code, between more backticks than it has in a row."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], cell: Callable[[str], str] | None = literal) -> list[str]:
    """A table, or nothing where it has no rows.

    Args:
        head: texts.
        rows: texts.
        cell: makes a cell of a text; None: they are cells already.
    """
    if not rows:
        return []
    made = [list(map(cell, row)) if cell is not None else row for row in rows]
    return [
        f"| {' | '.join(map(literal, head))} |",
        f"| {' | '.join('---' for _ in head)} |",
        *(f"| {' | '.join(each.replace('|', '/') for each in row)} |" for row in made),
    ]
