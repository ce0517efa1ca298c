"""Target topics that hold records before a flow has copied anything to them: whose records these are.

A copy that begins at the source's oldest record would repeat what another mirror has copied before, such as a
MirrorMaker 2 whose positions cannot be found. So the newest records of such a topic are looked at, without those of
producers that this flow has registered on the target (``copy.registrations``), before its internal topic was deleted.

    a record of another registered flow  stops it: two flows would write the topic
    only this flow may write the topic   any other record stops it
    others may write it too              a record stops it that both have: one that is equal, with its time, to a record
    (names are kept, ``homeward``)       of the source that no flow has brought there. Records of applications are none.

A mirror may have copied the other way too, from the target to the source, long ago: so records from all over the
source's log are looked for on the target as well, and not the newest ones of the target alone.

Invariants: nobody is stopped who copies nothing twice: a partition that has a position, an order or a start of its own,
that begins at the source's end, or whose target is empty, was emptied, or has nothing but control records, or but
heartbeats under a name of heartbeats; of a topic either all partitions that have not begun are begun or none; what
cannot be read is not begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config import AutoOffsetReset, FlowConfig, Isolation
from sparkmirror.copy.origins import brought_from, read_registry
from sparkmirror.copy.registrations import registrations
from sparkmirror.duties.heartbeat_copies import hold_heartbeats
from sparkmirror.duties.topics import is_heartbeats, is_homeward, unclaimed
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.events import Event, Kind
from sparkmirror.flow.comparing import seen
from sparkmirror.flow.planner import Pairs, patience_ms
from sparkmirror.flow.unexplained import NEWEST, is_absent
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import kind_of
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import read_headers
from sparkmirror.mm2.tail import Seen
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import WRITERS_TOPIC, append_filter

AROUND = 200
"""So many offsets are compared with a record of the other side, from the first of its time on."""

MOST = 20_000
"""So many, where more records have that very time."""

PARTS, FEW = 8, 20
"""At so many places of a source's log, from its begin on, one of so many records is looked for on the target."""

SAMPLED = 4
"""So many partitions of a topic are looked at that hold records."""

Failures = Mapping[TopicPartition, BrokerError | LinkError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What target partitions hold that this flow has not written.

    Attributes:
        records: of no registered flow, the newest of each partition that has some, in the order of the log.
        failed: partitions that could not be read.
        flows: which other registered flow has written the newest record of such flows.
    """

    records: Mapping[TopicPartition, Sequence[Seen]]
    failed: Failures
    flows: Mapping[TopicPartition, str] = field(default_factory=dict)


class TargetLogs:
    """Reads what others wrote to the target partitions of a flow.

    Args:
        config: of the flow.
        source, target: to ask.
        source_id, target_id: their cluster ids.
    """

    def __init__(self, config: FlowConfig, source: Cluster, target: Cluster, source_id: str, target_id: str) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._source_id = source_id
        self._target_id = target_id

    def of_others(self, places: Sequence[TopicPartition]) -> Found:
        """The newest records that this flow has not written, of some partitions of each topic."""
        timeout_ms = patience_ms(self._config, len(places))
        ends = admin.find_offsets(self._target, places, OffsetSpec.LATEST, timeout_ms=timeout_ms)
        used = [place for place, end in ends.found.items() if end > 0]
        firsts = admin.find_offsets(self._target, used, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        spans = _sampled(
            {
                place: Span(max(first, ends.found[place] - NEWEST), ends.found[place])
                for place, first in firsts.found.items()
                if first < ends.found[place]
            }
        )
        registered = self._registered() if spans else {}
        found = self._read(self._target, spans, registered, on_target=True) if spans else _NOTHING
        failed = {place: error for place, error in {**ends.failed, **firsts.failed}.items() if not is_absent(error)}
        records = {place: records for place, records in found.found.items() if records}
        return self._with_flows(spans, registered, Found(records=records, failed={**failed, **found.failed}))

    def _with_flows(self, spans: Mapping[TopicPartition, Span], registered: Mapping[int, str], found: Found) -> Found:
        """The same, and which other flows have written there; with provenance headers and kept names they may."""
        if self._config.provenance_header and self._config.tells_writers:
            return found
        others = {producer: flow for producer, flow in registered.items() if flow != str(self._config.name)}
        if not others:
            return found
        firsts = {place: span.first for place, span in spans.items()}
        tails = read_headers(self._target, firsts, patience_ms(self._config, len(firsts)))
        flows = {
            place: others[batch.producer_id]
            for place, tail in tails.found.items()
            for batch in tail.batches
            if not batch.control and batch.producer_id in others
        }
        return replace(found, failed={**found.failed, **tails.failed}, flows=flows)

    def hold_heartbeats(self, places: Sequence[TopicPartition]) -> frozenset[str]:
        """The topics of these target partitions that hold heartbeats alone."""
        return hold_heartbeats(self._target, places, patience_ms(self._config, len(places)))

    def copied(self, pairs: Pairs, found: Found) -> Found:
        """Those of the records that are equal to one that was born at the source, or came to it from a third cluster.

        Args:
            pairs: source and target partitions.
            found: what others wrote to the target.
        """
        copies: dict[TopicPartition, list[Seen]] = {}
        failed = dict(found.failed)
        returning = self._returning() if found.records else frozenset()
        by_source = {here: there for here, there in pairs if there in found.records}
        for which in (0, -1):
            left = {here: there for here, there in by_source.items() if there not in copies}
            wanted = {here: found.records[there][which] for here, there in left.items()}
            same, unread = self._find(self._source, wanted, returning, on_target=False)
            failed |= {by_source[here]: error for here, error in unread.items()}
            copies |= {by_source[here]: [wanted[here]] for here in same}
        rest = [(here, there) for here, there in by_source.items() if there not in copies]
        copies |= self._on_both(rest, returning, failed)
        return replace(found, records=copies, failed=failed)

    def _on_both(
        self, pairs: Pairs, returning: frozenset[int], failed: dict[TopicPartition, BrokerError | LinkError]
    ) -> dict[TopicPartition, list[Seen]]:
        """Records of target partitions that are equal to some of the source, by target partition.

        Args:
            pairs: source and target partitions.
            returning: the producers of flows that have brought records of the target to the source.
            failed: takes target partitions of which that could not be read.
        """
        known: dict[TopicPartition, list[Seen]] = {}
        by_source, timeout_ms = dict(pairs), patience_ms(self._config, len(pairs))
        registered = frozenset(self._registered()) if pairs else frozenset()
        begins = admin.find_offsets(self._source, list(by_source), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        stops = admin.find_offsets(self._source, list(begins.found), OffsetSpec.LATEST, timeout_ms=timeout_ms)
        failed |= {by_source[here]: error for here, error in {**begins.failed, **stops.failed}.items()}
        firsts, ends = begins.found, stops.found
        for part in range(PARTS if ends else 0):
            begin = {here: firsts[here] + (end - firsts[here]) * part // PARTS for here, end in ends.items()}
            spans = {here: Span(at, min(at + FEW, ends[here])) for here, at in begin.items() if at < ends[here]}
            read = self._read(self._source, spans, returning, on_target=False)
            wanted = {by_source[here]: some[0] for here, some in read.found.items() if some}
            wanted = {there: one for there, one in wanted.items() if there not in known}
            same, unread = self._find(self._target, wanted, registered, on_target=True)
            failed |= {by_source[here]: error for here, error in read.failed.items()} | unread
            known |= {there: [one] for there, one in same.items()}
        return known

    def _find(
        self, cluster: Cluster, wanted: Mapping[TopicPartition, Seen], without: frozenset[int], *, on_target: bool
    ) -> tuple[dict[TopicPartition, Seen], dict[TopicPartition, BrokerError | LinkError]]:
        """Records that are equal to these, among those of their time; and what could not be read.

        Where more records have that time than can be looked at, the last of them stands for one that is equal: nobody
        begins who may repeat something.
        """
        spans, failures = self._spans(cluster, wanted)
        failed, same = dict(failures), dict[TopicPartition, Seen]()
        for most in (AROUND, MOST):
            due = {place: span._replace(end=min(span.end, span.first + most)) for place, span in spans.items()}
            read = self._read(cluster, due, without, on_target=on_target)
            failed |= read.failed
            for place, records in read.found.items():
                one = wanted[place]
                cut = due[place].end < spans[place].end
                full = cut and (not records or records[-1].timestamp == one.timestamp)
                equal = next((each for each in records if _equal(each, one) or _equal(one, each)), None)
                if equal is None and full and records and most == MOST:
                    equal = records[-1]
                if equal is not None:
                    same[place] = equal
                if equal is not None or not full:
                    del spans[place]
            spans = {place: span for place, span in spans.items() if place not in failed}
        return same, failed

    def _spans(
        self, cluster: Cluster, wanted: Mapping[TopicPartition, Seen]
    ) -> tuple[dict[TopicPartition, Span], Failures]:
        """Where a cluster would have these records: from their time on, or where it is not known, at their offset."""
        timeout_ms = patience_ms(self._config, len(wanted))
        places = list(wanted)
        firsts = admin.find_offsets(cluster, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        ends = admin.find_offsets(cluster, list(firsts.found), OffsetSpec.LATEST, timeout_ms=timeout_ms)
        failed = {**firsts.failed, **ends.failed}
        by_time: dict[int, list[TopicPartition]] = defaultdict(list)
        begins: dict[TopicPartition, int] = {}
        for here in ends.found:
            moment = wanted[here].timestamp
            if moment is None or moment < 0:
                begins[here] = max(firsts.found[here], wanted[here].offset - AROUND // 2)
            else:
                by_time[moment].append(here)
        for moment, some in by_time.items():
            asked = admin.find_offsets(cluster, some, moment, timeout_ms=timeout_ms)
            begins |= {here: at for here, at in asked.found.items() if at != NO_OFFSET}
            failed |= asked.failed
        spans = {here: Span(at, ends.found[here]) for here, at in begins.items()}
        return {here: span for here, span in spans.items() if span.first < span.end}, failed

    def _read(
        self, cluster: Cluster, spans: Mapping[TopicPartition, Span], without: Iterable[int], *, on_target: bool
    ) -> Results[TopicPartition, list[Seen]]:
        timeout_ms = patience_ms(self._config, len(spans))
        return read_records(
            cluster,
            spans,
            lambda table: seen(table, on_target=on_target),
            timeout_ms,
            Isolation.READ_UNCOMMITTED,
            frozenset(without),
        )

    def _registered(self) -> dict[int, str]:
        """The producers of flows into the target, and of which flow each is."""
        known = registrations(self._target.run(read_registry, Journal(self._target, WRITERS_TOPIC)))
        return {one.producer_id: one.flow for one in known if one.cluster == self._target_id}

    def _returning(self) -> frozenset[int]:
        """The producers of flows that have brought records of the target to the source."""
        return brought_from(self._source, self._source_id, self._target_id)


_NOTHING: Results[TopicPartition, list[Seen]] = Results(found={}, failed={})


class Occupied:
    """Says which partitions may not begin because of what their target topics hold.

    Args:
        config: of the flow.
        logs: of the target.
    """

    def __init__(self, config: FlowConfig, logs: TargetLogs) -> None:
        self._config = config
        self._logs = logs
        self._stopped: dict[str, dict[TopicPartition, TopicPartition]] = {}

    def look(self, pairs: Pairs) -> dict[TopicPartition, Event]:
        """Decides for partitions that would begin at a record of the source, without a position on record.

        Args:
            pairs: source and target partitions.

        Returns:
            those that may not begin now, and why.

        Raises:
            SparkmirrorError: a registry of writers cannot be read.
        """
        due = repeating(self._config, pairs)
        topics = {there.topic for _, there in due}
        # The others of a topic that stands still are asked about too: it begins as a whole.
        asked = dict(due) | {here: there for topic in topics for here, there in self._stopped.get(topic, {}).items()}
        found = self._of_others(list(asked.items()))
        if self._config.tells_writers and found.records:
            found = self._but_for_applications(tuple(asked.items()), found)
        written = {there.topic: (there, one[-1]) for there, one in sorted(found.records.items(), reverse=True)}
        flows = {there.topic: (there, flow) for there, flow in sorted(found.flows.items(), reverse=True)}
        for topic in topics:
            self._stopped.pop(topic, None)
        refused: dict[TopicPartition, Event] = {}
        for here, there in due:
            if there.topic in flows:
                text = _of_flow(here.topic, *flows[there.topic])
            elif there.topic in written:
                text = self._of_nobody(here.topic, *written[there.topic])
            else:
                text = ""
            if text:
                refused[here] = Event(kind=Kind.TARGET_NOT_EMPTY, text=text)
                self._stopped[there.topic] = {h: t for h, t in asked.items() if t.topic == there.topic}
            elif there in found.failed:
                refused[here] = _unread(there, found.failed[there])
        return refused

    def _but_for_applications(self, pairs: Pairs, found: Found) -> Found:
        """What others wrote, without records of applications where these may write too: there names are kept."""
        renamed = {there for here, there in pairs if self._is_renamed_heartbeats(here.topic, there.topic)}
        named = {there: some for there, some in found.records.items() if there in renamed}
        rest = {there: some for there, some in found.records.items() if there not in renamed}
        copied = self._logs.copied(pairs, replace(found, records=rest))
        return replace(copied, records={**copied.records, **named})

    def _is_renamed_heartbeats(self, topic: str, copy: str) -> bool:
        """Whether a topic has a name of heartbeats, and its copy another one also where names are kept."""
        return topic != copy and is_heartbeats(self._config, topic)

    def held(self, pairs: Pairs) -> frozenset[str]:
        """The target topics that hold records of others where partitions begin, though nobody has said that they may.

        Args:
            pairs: source and target partitions that begin without a position on record.

        Returns:
            their names. One that cannot be read is taken for one of them.

        Raises:
            SparkmirrorError: the registry of writers cannot be read.
        """
        due = unclaimed(self._config, [here for here, _ in pairs])
        found = self._of_others([(here, there) for here, there in pairs if here in due])
        return frozenset(there.topic for there in (*found.records, *found.flows, *found.failed))

    def _of_others(self, pairs: Pairs) -> Found:
        """What others wrote to the target partitions, without copies of heartbeats, which any mirror may have left."""
        found = self._logs.of_others([there for _, there in pairs]) if pairs else Found(records={}, failed={})
        named = [there for here, there in pairs if is_heartbeats(self._config, here.topic)]
        held = [there for there in named if there in found.records or there in found.flows]
        beats = self._logs.hold_heartbeats(held) if held else frozenset()
        records = {there: some for there, some in found.records.items() if there.topic not in beats}
        return replace(found, records=records, flows={p: f for p, f in found.flows.items() if p.topic not in beats})

    def _of_nobody(self, topic: str, there: TopicPartition, newest: Seen) -> str:
        if self._config.tells_writers and not self._is_renamed_heartbeats(topic, there.topic):
            what = f"record {newest.offset} of {there} is the same as one of the source"
        else:
            what = f"record {newest.offset} of {there} was written by another producer"
        return (
            f"the target topic {there.topic} was written before this flow began: {what}, and no registered flow wrote "
            f"it; copying {topic} from the source's oldest record could repeat it, so no partition of it is begun. "
            f"If MirrorMaker 2 copied it, stop this flow and start it with --take-over mm2 (and --offsets-topic, where "
            f"Connect's topic of offsets has another name); else delete or empty {there.topic}, or say with "
            f"start.positions where {topic} begins, or copy it behind these records with topics.append = {topic}"
        )


def repeating(config: FlowConfig, pairs: Pairs) -> Pairs:
    """Those that, without a position, begin where nobody said that they may: at the oldest record by default."""
    appended = append_filter(config)
    topics = {
        topic
        for topic in {here.topic for here, _ in pairs}
        if not (is_homeward(config, topic) or appended.matches(topic))
    }
    return [(here, there) for here, there in pairs if here.topic in topics and _is_looked_at(config, here)]


def _of_flow(topic: str, there: TopicPartition, flow: str) -> str:
    return (
        f"flow {flow} has written to the target topic {there.topic}, and this one has not begun there: two flows "
        f"would write one topic, or repeat what {flow} has copied if that was this flow under another name, so no "
        f"partition of {topic} is begun. Exclude {topic} from one of the two, or give copies other names; if "
        f"this flow is to go on behind {flow}, say with start.positions where {topic} begins; if both are to "
        f"write {there.topic}, in no fixed order, say topics.append = {topic}"
    )


def _is_looked_at(config: FlowConfig, here: TopicPartition) -> bool:
    """Whether it begins at the oldest record, or has a name of heartbeats, and nobody said where it begins."""
    if config.start.of(*here) is None:
        return config.auto_offset_reset is not AutoOffsetReset.LATEST or is_heartbeats(config, here.topic)
    return not config.start.chosen(*here)


def _sampled(spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, Span]:
    """Some partitions of each topic."""
    counted: dict[str, int] = defaultdict(int)
    kept = {}
    for place in sorted(spans):
        counted[place.topic] += 1
        if counted[place.topic] <= SAMPLED:
            kept[place] = spans[place]
    return kept


def _equal(one: Seen, other: Seen) -> bool:
    return one.digest == other.digest and one.timestamp in (None, other.timestamp)


def _unread(there: TopicPartition, error: BrokerError | LinkError) -> Event:
    kind = kind_of(error.code) if isinstance(error, BrokerError) else Kind.STOPPED
    return Event(kind=kind, text=f"whether {there} holds records of others cannot be read: {error}")
