"""Tokens that nobody has signed, as options of a login module describe them; for brokers that are only tried out.

This is what a Java client does with OAUTHBEARER when no ``sasl.login.callback.handler.class`` is set.

Reference: ``OAuthBearerUnsecuredLoginCallbackHandler``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite

from sparkmirror.config.entries import Entry
from sparkmirror.config.security_settings import UnsecuredToken

PREFIX = "unsecuredLogin"
"""How its options begin."""


def read_unsecured(entry: Entry, options: Mapping[str, str]) -> UnsecuredToken:
    """The token that the options ask for.

    Raises:
        ConfigError: an option that does not fit, or a token that would name nobody.
    """
    claims: dict[str, object] = {}
    for name, value in options.items():
        kind, mark, claim = name.removeprefix(PREFIX).partition("Claim_")
        if not name.startswith(PREFIX) or not mark:
            continue
        if claim in ("", "iat", "exp"):
            raise entry.wrong("an option sets a claim without a name, or one of the times", "leave iat and exp out")
        try:
            claims[claim] = _CLAIMS[kind](value)
        except (KeyError, ValueError):
            raise entry.wrong(
                "an option for a claim does not fit", "possible: unsecuredLogin{String,Number,List}Claim_"
            ) from None
    principal = options.get(f"{PREFIX}PrincipalClaimName", "").strip() or "sub"
    if not isinstance(claims.get(principal), str) or not claims[principal]:
        raise entry.wrong("its token would name nobody", f"add {PREFIX}StringClaim_{principal}")
    lifetime = options.get(f"{PREFIX}LifetimeSeconds", "3600").strip()
    if not re.fullmatch(r"[1-9][0-9]{0,8}", lifetime):
        raise entry.wrong(f"{PREFIX}LifetimeSeconds is no number of seconds", "give a whole number above 0")
    return UnsecuredToken(claims=json.dumps(claims, sort_keys=True), lifetime_s=int(lifetime))


def _number(value: str) -> float:
    number = float(value)
    if not isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _listed(value: str) -> list[str]:
    """A list whose first character parts its elements."""
    return value[1:].split(value[0]) if len(value) > 1 else []


_CLAIMS: Mapping[str, Callable[[str], object]] = {"String": str, "Number": _number, "List": _listed}
