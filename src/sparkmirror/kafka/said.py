"""What a broker says in its own words, as it may stand in a message: never with a secret of the client in it.

A broker that was shown a password, or whoever passes for it, can repeat it in the text of any error. So these texts are
held against the secrets of the client's settings: as they are, URL-encoded, in base64 and in hexadecimal. Where one is
found nothing of the text is shown: a gap in a sentence that everybody knows would tell which word is the password.

A secret of a few letters may be any word, and is looked for as a whole word only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from sparkmirror.config.secret import Secret

NOT_SHOWN = "[not shown: a secret of this client is in the broker's words]"

LOOKED_AT = 16 << 10
"""Characters; texts of brokers may have megabytes, and a message shows far fewer."""

LEAST, ANYWHERE = 3, 8
"""Characters of a secret that is looked for as a word, and of one that is looked for within words."""


def shown(words: str, secrets: Iterable[str]) -> str:
    """The words, no more than `LOOKED_AT` characters of them, or that they are not shown. Pure."""
    begin = words[:LOOKED_AT]
    return NOT_SHOWN if repeats(begin, secrets) else begin


def repeats(words: str, secrets: Iterable[str]) -> bool:
    """Whether one of the secrets is in the words, in whatever form. Pure."""
    lower = words.casefold()
    return any(_is_in(form, lower) for secret in secrets if len(secret) >= LEAST for form in _forms(secret))


def secrets_in(settings: Any) -> frozenset[str]:
    """All secrets that a dataclass of settings holds; of a key in PEM each line that is a part of it."""
    found = set[str]()
    for value in (getattr(settings, each.name) for each in fields(settings)):
        if isinstance(value, Secret):
            found.update(_parts(value.reveal()))
        elif is_dataclass(value):
            found |= secrets_in(value)
    return frozenset(found)


def _parts(secret: str) -> Iterator[str]:
    lines = secret.strip().splitlines()
    if len(lines) < 2:
        yield secret
    yield from (line for line in lines[1:-1] if len(line) >= ANYWHERE)


def _is_in(form: str, lower: str) -> bool:
    wanted = form.casefold()
    if wanted not in lower:
        return False
    return len(wanted) >= ANYWHERE or re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", lower) is not None


def _forms(secret: str) -> Iterator[str]:
    data = secret.encode()
    yield from (secret, quote(secret, safe=""), quote_plus(secret), "".join(f"%{byte:02x}" for byte in data))
    yield data.hex()
    yield base64.b64encode(data).decode().rstrip("=")
    for before in range(3):  # within something longer that is in base64, such as a login
        encoded = base64.b64encode(bytes(before) + data).decode()
        core = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(core) >= ANYWHERE:
            yield core
            yield core.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")
