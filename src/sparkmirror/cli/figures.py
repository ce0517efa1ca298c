"""Numbers as people read them: counts, rates, sizes, spans of time. A missing number is shown as a dash, never as 0."""

from __future__ import annotations

from sparkmirror.model import NO_OFFSET

MISSING = "-"
DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


def known(offset: int) -> int | None:
    """An offset for JSON: null where it is not known."""
    return None if offset == NO_OFFSET else offset


def count(value: float | None) -> str:
    """A whole number with thousands separated: ``1,234,567``."""
    return MISSING if value is None else f"{value:,.0f}"


def rate(per_s: float | None) -> str:
    """Records per second: ``12,345/s``."""
    return MISSING if per_s is None else f"{per_s:,.0f}/s"


def megabytes(value: float | None) -> str:
    """Bytes as megabytes of 10⁶: ``1.2 MB``."""
    return MISSING if value is None else f"{value / 1e6:,.1f} MB"


def megabytes_rate(bytes_per_s: float | None) -> str:
    """Bytes per second as megabytes of 10⁶: ``1.2 MB/s``."""
    return MISSING if bytes_per_s is None else f"{megabytes(bytes_per_s)}/s"


def span(milliseconds: float | None) -> str:
    """A span of time in the two units that matter: ``250 ms``, ``4.2 s``, ``3 min 5 s``, ``2 d 4 h``."""
    if milliseconds is None:
        return MISSING
    if milliseconds < SECOND_MS:
        return f"{milliseconds:.0f} ms"
    if milliseconds < MINUTE_MS:
        return f"{milliseconds / SECOND_MS:.1f} s"
    whole = int(milliseconds)
    for unit_ms, unit, part_ms, part in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", SECOND_MS, "s"),
    ):
        if whole >= unit_ms:
            return f"{whole // unit_ms} {unit} {whole % unit_ms // part_ms} {part}"
    raise AssertionError("a span of a minute or more has a unit")
