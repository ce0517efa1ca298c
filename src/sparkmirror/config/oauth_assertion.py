"""The assertion that a client shows at a token endpoint instead of a secret, out of ``sasl.oauthbearer.assertion.*``.

It stands in a file, or is signed here for each request. What is read for that, the key and the template, is read when
the configuration is, and goes to the executors with it; so a new key is taken at the next start.

References: KIP-1139, KIP-1258; ``AssertionSupplierFactory`` and ``AssertionUtils`` of Kafka 4.3.
"""

from __future__ import annotations

import json
from typing import Any

from sparkmirror.config import pem
from sparkmirror.config.entries import Entry, Reader
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import AssertionFile, SignedAssertion, SigningAlgorithm

_BEGIN = "sasl.oauthbearer.assertion."
FILE, ISSUER = f"{_BEGIN}file", f"{_BEGIN}claim.iss"
_KEY, _PASSPHRASE, _TEMPLATE = f"{_BEGIN}private.key.file", f"{_BEGIN}private.key.passphrase", f"{_BEGIN}template.file"
_CLAIMS = ("aud", "iss", "sub")


def read_assertion(reader: Reader, *, wanted: bool) -> AssertionFile | SignedAssertion | None:
    """The assertion, or None where the client shows a secret.

    Args:
        reader: the client's keys without any prefix.
        wanted: whether there has to be one, since the way to get tokens needs it.

    Raises:
        ConfigError: a setting that cannot work, or a file that cannot be read.
    """
    entry, path = reader.entry(FILE), reader.text(FILE)
    if entry is not None and path is not None:
        _read(entry, path)
        return AssertionFile(path=path, shown=entry.tell(path), key=entry.key)
    if wanted or reader.text(ISSUER) is not None:
        return _signed(reader)
    for name in sorted(one for one in reader.entries if one.startswith(_BEGIN) and reader.text(one) is not None):
        raise reader.entries[name].wrong(
            f"has no meaning here, since neither {FILE} nor {ISSUER} is set", f"set {ISSUER}, or remove the line"
        )
    return None


def _signed(reader: Reader) -> SignedAssertion:
    entry, path = reader.entry(_KEY), reader.text(_KEY)
    if entry is None or path is None:
        named = next(reader.entries[one] for one in (ISSUER, "sasl.oauthbearer.token.endpoint.url") if reader.text(one))
        raise named.wrong(f"needs an assertion, but neither {FILE} nor {_KEY} is set", f"set {_KEY}")
    algorithm = reader.choice(
        f"{_BEGIN}algorithm", {one.value: one for one in SigningAlgorithm}, SigningAlgorithm.RS256
    )
    passphrase = reader.password(_PASSPHRASE)
    try:
        key = pem.signing_key(_read(entry, path).decode(errors="replace"))
        pem.check_signing(
            key, passphrase.reveal() if passphrase else None, elliptic=algorithm is SigningAlgorithm.ES256
        )
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
    claims = {one: text for one in _CLAIMS if (text := reader.text(f"{_BEGIN}claim.{one}")) is not None}
    header, payload = _template(reader)
    return SignedAssertion(
        private_key=Secret(key),
        passphrase=passphrase,
        algorithm=algorithm,
        header=json.dumps(header),
        claims=json.dumps(claims | payload),
        lasts_s=reader.integer(f"{_BEGIN}claim.exp.seconds", 300, low=0, high=86_400),
        before_s=reader.integer(f"{_BEGIN}claim.nbf.seconds", 60, low=0, high=3_600),
        unique=reader.boolean(f"{_BEGIN}claim.jti.include", False),
        key=entry.key,
    )


def _template(reader: Reader) -> tuple[dict[str, Any], dict[str, Any]]:
    entry, path = reader.entry(_TEMPLATE), reader.text(_TEMPLATE)
    if entry is None or path is None:
        return {}, {}
    try:
        found = json.loads(_read(entry, path))
        parts = [found.get(name, {}) for name in ("header", "payload")]
        fits = all(isinstance(part, dict) for part in parts)
    except (ValueError, AttributeError):
        fits, parts = False, []
    if not fits:
        raise entry.wrong(
            f"{entry.tell(path)} is no template of an assertion", 'a JSON object with "header" and "payload" objects'
        )
    return parts[0], parts[1]


def _read(entry: Entry, path: str) -> bytes:
    try:
        return pem.read(path, entry.tell(path))
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
