"""Bulk requests about many topics or partitions, repeated for those that are not answered yet until a deadline.

Invariants: one item that fails never takes the others with it; an item that no answer speaks of is a failure, and what
answers say of anything else is passed over; an item is sent again only while its error is one that
passes (`codes.advice`) and the deadline has not come; an unknown topic is asked for a few seconds only, since a new one
takes that long to be known everywhere and a deleted one never comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.codes import (
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Advice,
    advice,
    name_of,
)
from sparkmirror.kafka.login_errors import shortened

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ADMIN_MS = 60_000
UNKNOWN_MS = 3_000
ATTEMPT_MIN_MS, ATTEMPT_MS = 1_000, 30_000
OVERDUE = 10
"""How many times its deadline a round may take at most. It has a request for each of its items at worst, such as groups
that are asked for one by one, and goes on while brokers answer."""
_LEFT_OUT = "nothing: its answer leaves this out"


class Deadline:
    """A moment until which something is tried, and the pauses on the way there."""

    def __init__(self, timeout_ms: int, backoff: Backoff) -> None:
        self._start = time.monotonic()
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        self._pauses = 0

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the start."""
        return int((time.monotonic() - self._start) * 1000)

    @property
    def left_ms(self) -> int:
        """Milliseconds until the moment, 0 when it has come."""
        return max(0, self._timeout_ms - self.elapsed_ms)

    @property
    def passed(self) -> bool:
        """Whether the moment has come."""
        return self.elapsed_ms >= self._timeout_ms

    @property
    def attempt_ms(self) -> int:
        """How long one request may take: what is left, within limits; the last one may end a little later."""
        return max(ATTEMPT_MIN_MS, min(self._timeout_ms - self.elapsed_ms, ATTEMPT_MS))

    @property
    def overdue(self) -> bool:
        """Whether the moment has come long ago: a round has taken `OVERDUE` times as long as it should."""
        return self.elapsed_ms >= OVERDUE * max(self._timeout_ms, ATTEMPT_MIN_MS)

    def pause(self) -> None:
        """Waits a little, longer each time, and never beyond the moment."""
        time.sleep(self.next_pause_s())

    def next_pause_s(self) -> float:
        """How many seconds to wait now, for whoever waits by other means."""
        self._pauses += 1
        left = (self._timeout_ms - self.elapsed_ms) / 1000
        return max(0.0, min(self._backoff.after(self._pauses), left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[K, V]):
    """What one request told of one item: a value, an error code, or a failure of the exchange.

    ``final``: whether the item is not asked for again, whatever the failure.
    """

    key: K
    value: V | None = None
    code: int = 0
    message: str = ""
    link: LinkError | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Generic[K, V]):
    """What became of each item of a bulk request.

    Attributes:
        found: the answers.
        failed: why there is none.
    """

    found: Mapping[K, V]
    failed: Mapping[K, BrokerError | LinkError]

    def complete(self) -> dict[K, V]:
        """The answers, when there is one for each item.

        Raises:
            BrokerError: a broker refused one of them; the first.
            LinkError: one of them could not be asked for; the first.
        """
        for failure in self.failed.values():
            raise failure
        return dict(self.found)


def repeat(
    items: Sequence[K],
    ask: Callable[[Sequence[K], Deadline], Iterable[Answer[K, V]]],
    explain: Callable[[K, int, str], BrokerError],
    timeout_ms: int,
    backoff: Backoff,
    *,
    unknown_ms: int = UNKNOWN_MS,
) -> Results[K, V]:
    """Asks for all items, and again for those that may still be answered.

    Args:
        items: what is asked for.
        ask: sends one round of requests for the items given and yields what came of each.
        explain: makes the error of an item from code and the broker's message.
        timeout_ms: milliseconds until those without an answer count as failed.
        backoff: the pauses between the rounds.
        unknown_ms: milliseconds until an unknown topic is believed to be none.
    """
    deadline = Deadline(timeout_ms, backoff)
    found: dict[K, V] = {}
    failed: dict[K, BrokerError | LinkError] = {}
    pending = list(dict.fromkeys(items))
    asked = frozenset(pending)
    while pending:
        again = dict.fromkeys(pending)  # also what no answer speaks of
        for answer in ask(pending, deadline):
            if answer.key not in asked:
                continue
            again.pop(answer.key, None)
            if answer.link is None and answer.code == 0:
                found[answer.key] = answer.value  # type: ignore[assignment]  # V may be None itself
                continue
            failed[answer.key] = answer.link or explain(answer.key, answer.code, answer.message)
            if not answer.final and (answer.link is not None or _passes(answer.code, deadline, unknown_ms)):
                again[answer.key] = None
        for key in again:
            failed.setdefault(key, explain(key, UNKNOWN_SERVER_ERROR, _LEFT_OUT))
        pending = list(again)
        if pending:
            deadline.pause()
        if deadline.passed:
            break
    return Results(found=found, failed={key: failed[key] for key in failed if key not in found})


def out_of_time(deadline: Deadline, failure: LinkError | None, cluster: str, address: str) -> LinkError | None:
    """Why nothing more is asked in a round of many requests; None where it goes on.

    Args:
        deadline: of the round.
        failure: of the request before, if it had no answer: each further one may cost a wait.
        cluster: the alias of the cluster that is asked.
        address: of it.
    """
    if failure is not None and deadline.passed:
        return failure
    if deadline.overdue:
        reason = f"requests that came before took {OVERDUE} times as long as all of them may"
        return LinkError(cluster=cluster, address=address, reason=reason)
    return None


def chunks(items: Sequence[K], size: int) -> Iterable[Sequence[K]]:
    """The items in pieces of at most ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))


def explained(
    code: int, cluster: str, *, topic: str, partition: int | None = None, remedy: str = "", message: str = ""
) -> BrokerError:
    """A broker's refusal with what to do about it and what the broker itself says."""
    said = f"the broker says: {shortened(message)}" if message else ""
    return BrokerError(
        code=code,
        name=name_of(code),
        cluster=cluster,
        topic=topic,
        partition=partition,
        remedy="; ".join(filter(None, (remedy, said))),
    )


def _passes(code: int, deadline: Deadline, unknown_ms: int) -> bool:
    if code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
        return deadline.elapsed_ms < unknown_ms
    return advice(code) in (Advice.RETRY, Advice.REFRESH)
