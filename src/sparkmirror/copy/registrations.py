"""What the registry of writers says of a mirror's producer ids, and what follows for who reads their batches. Pure.

A registration names the cluster that its flow reads (its *origin*), the further clusters whose records come through
that one under identity naming (what it *carries*), and the epoch from which on each record tells its way itself, in a
provenance header.

Rules, for a flow from S to T that meets batches of a registered flow X to S:
    * T is X's origin: they came from there, and are dropped.
    * X carries what came from T: some of its batches came from there and none tells which, unless the records do
      (``headers``) and this flow looks. Otherwise the partition stops: this is a ring.
    * Else they are carried on. The flow has to have declared first, under a newer epoch than any that a reader looked
      up before, that it carries what X brings; readers look an id up once for each of its epochs.

Where topics are renamed, names tell what has been on the target, and all of this is not asked; but for two things. A
flow may bring home what others wrote to copies of its target's topics: there batches with the origin T are dropped as
above. And the flow that made these copies drops what came home so, or it would copy it once more.

A registration is believed, whoever wrote it: taking a true one for false would let records go round for ever. Whether
the cluster confirms it is asked as well, of the coordinator of the transactional id that the flow has to hold; what is
left out without that is told (`doubt`). Where the producer was nobody's when a reader looked it up first, only what the
cluster confirms is believed: a flow registers an id before it writes with it.

Invariant: what is registered for an id only ever grows, since its old batches stay in the log; ``headers`` holds from
its epoch on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkmirror.events import Kind
from sparkmirror.kafka.journal import Entry
from sparkmirror.model import Writer
from sparkmirror.naming.topics import WRITERS_TOPIC
from sparkmirror.offsets import json_text
from sparkmirror.offsets.foreign import Flaw, Foreign
from sparkmirror.offsets.json_text import count, text, texts
from sparkmirror.offsets.records import NotOursError

VERSION = 1

SHOWN = 200
"""Characters of a text of others in what people are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One producer id: ``flow`` writes with it to ``cluster`` what has come through the clusters of ``origin``.

    Attributes:
        producer_id, flow, cluster, origin: as said; clusters by their ids.
        group: which of the flow's partitions, None where that is not said.
        carried: further clusters that some of the batches have come through.
        headers: the epoch from which on every record has a provenance header, None if they have none.
    """

    producer_id: int
    flow: str
    cluster: str
    origin: tuple[str, ...]
    group: int | None = None
    carried: tuple[str, ...] = ()
    headers: int | None = None

    @property
    def key(self) -> str:
        """The record's key."""
        return key_of(self.producer_id)

    @property
    def value(self) -> str:
        """The record's value."""
        value: dict[str, object] = {
            "v": VERSION,
            "flow": self.flow,
            "cluster": self.cluster,
            "origin": list(self.origin),
        }
        if self.group is not None:
            value["group"] = self.group
        if self.carried:
            value["carried"] = list(self.carried)
        if self.headers is not None:
            value["headers"] = self.headers
        return json.dumps(value)

    @property
    def transactional_id(self) -> str:
        """To which the producer id belongs; "" where the group is not told."""
        return "" if self.group is None else transactional_id(self.flow, self.origin, self.group)

    def tells(self, epoch: int) -> bool:
        """Whether the records of an epoch tell their way themselves."""
        return self.headers is not None and epoch >= self.headers


def key_of(producer_id: int) -> str:
    """The key under which a producer id is registered."""
    return json.dumps(["writer", producer_id])


def transactional_id(flow: str, origin: Iterable[str], group: int) -> str:
    """``sparkmirror.<flow>.<origin set>.<group>``: by which the cluster that is written to knows a group's writer."""
    digest = hashlib.sha256(",".join(sorted(origin)).encode()).hexdigest()[:12]
    return f"sparkmirror.{flow}.{digest}.{group}"


def doubt(known: Registration, held: Writer | None) -> str:
    """Why a cluster's answer does not confirm a registration; "" where it does.

    Args:
        known: the registration.
        held: the writer that its transactional id has there; None where it has none.
    """
    name = known.transactional_id[:SHOWN]
    if held is None:
        return (
            f"it does not know transactional id {name}, which nobody ever had, or nobody has used for "
            "transactional.id.expiration.ms"
        )
    if held.producer_id != known.producer_id:
        return f"transactional id {name} has another producer id there, so this one is an earlier one, or a stranger's"
    return ""


def unconfirmed(known: Registration, reason: str) -> str:
    """What people are told of a producer that is left out, and that its cluster does not confirm as a mirror's."""
    return (
        f"records of producer id {known.producer_id} are left out: {WRITERS_TOPIC} names it as a writer of "
        f"{known.flow[:SHOWN]}, which brings them from the target; the cluster does not confirm that: {reason}. If an "
        "application has this id, its records are missing on the target: see docs/security.md#left-out-by-writer"
    )


def overdue(known: Registration, reason: str) -> str:
    """What people are told of a registration that came too late, and that the cluster does not confirm."""
    return (
        f"records of producer id {known.producer_id} are copied as before: {WRITERS_TOPIC} names it as a writer of "
        f"{known.flow[:SHOWN]} since some of them were copied, and a mirror is named there before its first record; "
        f"the cluster does not confirm that: {reason}: see docs/security.md#left-out-by-writer"
    )


def registration(key: str, value: str) -> Registration | None:
    """Reads one record of the registry; None for a kind, or a version, that a later release may have written.

    Raises:
        NotOursError: the record is not one of ours, by its key.
        ValueError: its key is that of a registration, and its value is none.
    """
    wrong = f"not a record of {WRITERS_TOPIC}: key {key[:200]}"
    try:
        name = json_text.read(key)
        if type(name) is not list or not name or type(name[0]) is not str:
            raise ValueError("no list that begins with a kind")
        if name[0] != "writer":
            return None
        _, producer_id = name
        if key != key_of(count(producer_id)):
            raise ValueError("another spelling, which is another key to Kafka")
    except ValueError as failure:
        raise NotOursError(wrong) from failure
    try:
        data = json_text.read(value)
        version = count(data["v"])
        if version < VERSION:
            raise ValueError("no release wrote this version")
        return None if version > VERSION else _registration(producer_id, data)
    except json_text.UNREADABLE as failure:
        raise ValueError(wrong) from failure


def _registration(producer_id: int, data: Mapping[str, Any]) -> Registration:
    group, headers = data.get("group"), data.get("headers")
    return Registration(
        producer_id=producer_id,
        flow=text(data["flow"]),
        cluster=text(data["cluster"]),
        origin=texts(data["origin"]),
        group=None if group is None else count(group),
        carried=texts(data.get("carried", [])),
        headers=None if headers is None else count(headers),
    )


def registrations(entries: Iterable[Entry]) -> list[Registration]:
    """The registrations among entries, in their order; what is none is passed over."""
    found = []
    for entry in entries:
        with suppress(ValueError):
            known = registration(entry.key, entry.value) if entry.value is not None else None
            if known is not None:
                found.append(known)
    return found


def foreign_among(entries: Iterable[Entry]) -> Foreign:
    """What `registrations` passes over, for who tells of it."""
    found = Foreign()
    for entry in entries:
        try:
            if entry.value is not None:
                registration(entry.key, entry.value)
        except NotOursError:
            found.note(entry.key, entry.offset, Flaw.KEY)
        except ValueError:
            found.note(entry.key, entry.offset, Flaw.VALUE)
    return found


def of_flow(entries: Iterable[Entry], flow: str, cluster_id: str, origin: tuple[str, ...]) -> dict[int, Registration]:
    """The producer ids that a flow was given, oldest first.

    Args:
        entries: of the registry, in the order of the log.
        flow: the flow.
        cluster_id: of the cluster that is written to.
        origin: ids of the clusters that the flow reads.
    """
    found: dict[int, Registration] = {}
    for known in registrations(entries):
        if (known.flow, known.cluster, set(known.origin)) == (flow, cluster_id, set(origin)):
            found.pop(known.producer_id, None)
            found[known.producer_id] = known
    return found


def gone(registered: Iterable[Registration], entries: Iterable[Entry]) -> list[Registration]:
    """What a registry has to be told again of a flow, in this order.

    All from the first one on that it has lost: the last record of a group names its present producer id.

    Args:
        registered: what the flow has put on record, oldest first.
        entries: of the registry, the newest of each key; without a value those that somebody has removed.
    """
    newest = list(entries)
    removed = {entry.key for entry in newest if entry.value is None}
    there = {known.producer_id: known for known in registrations(newest)}
    wanted = [each for each in registered if each.key not in removed]
    lost = next((number for number, each in enumerate(wanted) if there.get(each.producer_id) != each), len(wanted))
    return wanted[lost:]


def ids_of_flow(entries: Iterable[Entry], flow: str, cluster_id: str, origin: tuple[str, ...]) -> dict[int, int | None]:
    """As `of_flow`, with the group of partitions of each id where that is told."""
    return {known.producer_id: known.group for known in of_flow(entries, flow, cluster_id, origin).values()}


def carried_into(entries: Iterable[Entry], source_id: str, target_id: str) -> frozenset[str]:
    """The clusters whose records a flow from ``source_id`` to ``target_id`` carries on, by the source's registry.

    What came from the target is dropped, so it is not among them.
    """
    found: set[str] = set()
    for known in registrations(entries):
        if known.cluster == source_id and target_id not in known.origin:
            found.update(known.origin, known.carried)
    return frozenset(found - {source_id, target_id})


def closing(known: Iterable[Registration], source_id: str, target_id: str) -> tuple[Registration, ...]:
    """The flows that bring the source what has come from the target through further clusters: they close a ring.

    Args:
        known: of the source's registry.
        source_id: of the flow that is asked for.
        target_id: of it. What a flow reads there itself comes straight back, and is told by its producers.
    """
    return tuple(
        one for one in known if one.cluster == source_id and target_id in one.carried and target_id not in one.origin
    )


class Refusal(NamedTuple):
    """Why batches of another mirror are not copied."""

    text: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A flow that meets batches of other mirrors.

    Attributes:
        source_id, target_id: its clusters.
        headers: whether it reads and writes provenance headers.
    """

    source_id: str
    target_id: str
    headers: bool = False

    def refuses(self, known: Registration, oldest_epoch: int, carried: frozenset[str]) -> Refusal | None:
        """Whether batches of ``known`` may be carried on; those with its origin in the target are dropped before.

        Args:
            known: the flow that wrote them.
            oldest_epoch: of these batches.
            carried: what the partition's writer epoch has been declared to carry.
        """
        told = self.headers and known.tells(oldest_epoch)
        if self.target_id in known.carried and not told:
            return Refusal(
                f"{known.flow} mirrored it here and also carries what came from the target: this is a ring under "
                "identity naming, and nothing tells which of these records were born there: set "
                "provenance.header.enabled = true for every flow of the ring, before these records are mirrored; or "
                "use DefaultReplicationPolicy",
                Kind.LOOP,
            )
        if self.headers and known.carried and not told:
            return Refusal(
                f"{known.flow} mirrored it here from more than one cluster, without a provenance header: nothing "
                "tells where these records were born: set provenance.header.enabled = true for that flow too",
                Kind.LOOP,
            )
        if not carried.issuperset({*known.origin, *known.carried} - {self.source_id, self.target_id}):
            return Refusal(
                f"{known.flow} mirrored it here, and began after this flow: going on when it is on record that this "
                "flow carries its records on",
                Kind.RELAYED,
            )
        return None

    def refuses_home(self, known: Registration) -> Refusal | None:
        """Whether batches of ``known`` in a copy may go home; those with its origin in the target are dropped before.

        A flow that carries others' records under identity naming may have them from the target, whoever wrote these.
        """
        if not known.carried:
            return None
        return Refusal(
            f"{known.flow} mirrored it here under identity naming, from more than one cluster: nothing tells whether "
            "it came from the target, where it would be there twice: exclude the topic from one of the two flows with "
            "topics.exclude",
            Kind.LOOP,
        )

    def way(self, known: Registration, epoch: int) -> tuple[str, ...]:
        """The clusters that a record of ``known`` has come through, where the record does not tell."""
        return () if known.tells(epoch) else known.origin
