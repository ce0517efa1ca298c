"""One operator of an operation: claims it, gives signs of life, writes steps, and notices when it has lost it.

Whoever finds the operation claimed watches the other one's signs; if none comes, it is displaced. So an operator that
was killed blocks nobody for longer than that, and two can never be at work without one of them being told at its next
step.

Invariants: a step is written only by who has the operation, and what the log says of that is read first; the broker
takes nothing more of one that was displaced, orders to the flow included (it owns the topic by a transactional id);
signs come from a thread with a connection of its own, so that a step that takes long looks alive.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

from sparkmirror.config import FlowConfig
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover.states import EARLIER, ENDED, Kind, Step, first
from sparkmirror.flow.operator import who
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.ledger import Claim, Operation

INTERRUPTIONS = "interruptions"
"""The fact that has a row for each: step, when it was heard of last, by whom, why; when it was resumed, by whom."""

SIGN_SECONDS = 1.0
SILENT_SECONDS = 8.0
"""An operator whose sign does not change for so long, as the next one sees it, is displaced."""

WATCH_SECONDS = 0.5

LAST_MS = 3_000
"""For each exchange after something has failed: a target that is away is not waited for again and again."""


class Operator:
    """Has the operation of one flow; made by `operating`.

    Args:
        store: of the flow.
        claim: that counts.
    """

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim

    @property
    def operation(self) -> Operation | None:
        """The newest one on record."""
        return self._store.state.ledger.operation

    @property
    def token(self) -> str:
        """What it writes an operation with."""
        return self._claim.token

    def check(self) -> None:
        """Sees that nobody has taken the operation over.

        Raises:
            SparkmirrorError: somebody has, or the target cannot be asked.
        """
        self._store.follow()
        owner = self._store.state.ledger.owner
        if owner is None or owner.token != self._claim.token:
            other = "somebody" if owner is None else owner.by
            raise SparkmirrorError(
                f"{other} has taken this operation over, since this process gave no sign for {SILENT_SECONDS:g} s: "
                "nothing more is done here"
            )

    def prove(self) -> None:
        """The same, where it was not seen a moment ago; right before something that cannot be shut out.

        Raises:
            SparkmirrorError: as `check`.
        """
        self._store.prove_at_once()

    def begin(self, kind: Kind, flow: FlowConfig, facts: Mapping[str, Any], after_ms: int) -> Operation:
        """Puts a new operation on record, at its first step.

        Args:
            kind: of it.
            flow: whose.
            facts: what later steps need, and how it was asked for.
            after_ms: it comes after all that has this order, or a lower one, on record.

        Raises:
            SparkmirrorError: somebody else has the operation, or the target cannot be written to.
        """
        now, before = now_ms(), self.operation
        return self._write(
            Operation(
                token=self._claim.token,
                number=1 if before is None else before.number + 1,
                id=f"{kind.value}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now / 1000))}",
                kind=kind.value,
                step=first(kind).name,
                source=str(flow.source.alias),
                target=str(flow.target.alias),
                began_ms=now,
                time_ms=now,
                by=self._claim.by,
                facts=facts,
                order_ms=max(now, after_ms + 1),
            )
        )

    def go_to(self, step: Step, **facts: Any) -> Operation:
        """Puts the next step on record, with facts that later ones need.

        Raises:
            SparkmirrorError: somebody else has the operation, or the target cannot be written to.
        """
        facts |= {EARLIER: {}} if step in ENDED else {}  # of no use any more, and large
        return self._next(step=step.name, failure="", **({"facts": facts} if facts else {}))

    def resume(self) -> Operation:
        """Puts on record that the operation was interrupted, where and why, and that it goes on with this operator.

        Raises:
            SparkmirrorError: somebody else has the operation, or the target cannot be written to.
        """
        before = self.operation
        assert before is not None  # it was begun
        row = [before.step, before.time_ms, before.by, before.failure, now_ms(), self._claim.by]
        return self._next(failure="", facts={INTERRUPTIONS: [*before.facts.get(INTERRUPTIONS, []), row]})

    def note(self, **facts: Any) -> Operation:
        """Puts facts on record that later steps need; the step stays.

        Raises:
            SparkmirrorError: somebody else has the operation, or the target cannot be written to.
        """
        return self._next(facts=facts)

    def fail(self, failure: str) -> None:
        """Puts on record why the step did not end, if that takes no long time.

        Raises:
            SparkmirrorError: somebody else has the operation, or the target cannot be written to.
        """
        self._store.hasten(LAST_MS)
        self._next(failure=failure)

    def _next(self, **changed: Any) -> Operation:
        before = self.operation
        assert before is not None  # an operation was begun
        changed["facts"] = {**before.facts, **changed.get("facts", {})}
        return self._write(
            replace(
                before,
                token=self._claim.token,
                number=before.number + 1,
                by=self._claim.by,
                time_ms=now_ms(),
                **changed,
            )
        )

    def _write(self, operation: Operation) -> Operation:
        self.check()
        self._store.write([operation])
        self.check()
        if self.operation != operation:
            raise SparkmirrorError("another operator was faster: nothing more is done here")
        return operation


@contextmanager
def operating(flow: FlowConfig, store: Store, tell: Callable[[str], None]) -> Iterator[Operator]:
    """Claims the operation of a flow, until the block ends.

    When the block fails, the store is in haste from there on.

    Args:
        flow: whose.
        store: its internal topic.
        tell: is given what one waits for.

    Raises:
        SparkmirrorError: somebody else is at work, or the target cannot be asked.
    """
    with _hastening(store):
        claim = _claim(store, tell)
        store.own(f"sparkmirror.{flow.name}.operator")
    stop = threading.Event()
    beating = threading.Thread(target=_beat, args=(flow, claim, stop), name=f"signs of {flow.name}", daemon=True)
    beating.start()
    try:
        with _hastening(store):
            yield Operator(store, claim)
    finally:
        stop.set()
        beating.join(SILENT_SECONDS)
        with suppress(SparkmirrorError):  # whoever comes next watches for signs, and finds none
            store.append([(claim.key, None)])


@contextmanager
def _hastening(store: Store) -> Iterator[None]:
    """What fails within puts the store in haste."""
    try:
        yield
    except SparkmirrorError:
        store.hasten(LAST_MS)
        raise


def _claim(store: Store, tell: Callable[[str], None]) -> Claim:
    store.follow()
    owner = store.state.ledger.owner
    if owner is not None:
        _watch(store, owner, tell)
    mine = Claim(
        token=uuid.uuid4().hex[:12],
        displaces="" if owner is None else owner.token,
        sign=0,
        by=who(),
        time_ms=now_ms(),
    )
    store.write([mine])
    store.follow()
    found = store.state.ledger.owner
    if found is None or found.token != mine.token:
        store.append([(mine.key, None)])
        raise _busy(found)
    if owner is not None:
        store.append([(owner.key, None)])
    return mine


def _watch(store: Store, owner: Claim, tell: Callable[[str], None]) -> None:
    """Returns if the owner gives no sign."""
    tell(f"{owner.by} began or resumed an operation here: looking for {SILENT_SECONDS:g} s whether it is still at work")
    deadline = time.monotonic() + SILENT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(WATCH_SECONDS)
        store.follow()
        now = store.state.ledger.owner
        if now is None:
            return
        if (now.token, now.sign) != (owner.token, owner.sign):
            raise _busy(now)


def _busy(owner: Claim | None) -> SparkmirrorError:
    by = "somebody else" if owner is None else owner.by
    return SparkmirrorError(f"{by} is at work on this flow now: wait for the end, or stop that process first")


def _beat(flow: FlowConfig, claim: Claim, stop: threading.Event) -> None:
    """Signs of life, until the block ends. One that fails is made good by the next; who gives none is displaced."""
    with closing(Cluster(flow.target.alias, flow.target.admin, role="operator")) as target:
        store = Store(target, internal_topic(flow.name), int(SILENT_SECONDS * 1000))
        sign = 0
        while not stop.wait(SIGN_SECONDS):
            sign += 1
            try:
                store.write([replace(claim, sign=sign, time_ms=now_ms())])
            except SparkmirrorError:
                continue
