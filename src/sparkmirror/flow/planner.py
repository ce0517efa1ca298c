"""Plans for partitions: asks the clusters for what `positions` decides from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties.forth import AT_END, NO_WAY_HOME, Verdict
from sparkmirror.duties.topics import is_heartbeats, is_homeward
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.flow.facts import Facts
from sparkmirror.flow.positions import Known, Resumed, Stand, Start, decide_start
from sparkmirror.flow.starts import begins_at_end, begins_later, find_starts
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, broker_error, kind_of
from sparkmirror.kafka.epochs import Compare, CopiedLog, believed_ends, meeting_points, newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.metadata import TopicView, describe_topics
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, Copied, TopicPartition, Writer
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.recovery import Answer
from sparkmirror.offsets.source_history import Begun, EpochEnd, Looked

Pairs = Sequence[tuple[TopicPartition, TopicPartition]]

Refuse = Callable[[Pairs], Mapping[TopicPartition, Event]]
"""Says which of some partitions may not begin, and why."""

PATIENCE_MS, PATIENCE_EACH_MS = 12_000, 20


def patience_ms(config: FlowConfig, partitions: int) -> int:
    """How long questions about so many partitions may take: the others of the flow wait meanwhile.

    A partition whose leader does not answer in that time is asked for again later, by itself.
    """
    return min(config.admin_timeout_ms, PATIENCE_MS + PATIENCE_EACH_MS * partitions)


def starts_of(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    pairs: Pairs,
    *,
    facts: Facts,
    progress: Mapping[TopicPartition, Progress],
    source_epoch: Callable[[TopicPartition, int], int],
    history: Callable[[TopicPartition, str], Sequence[Begun]],
    compare: Compare,
    writers: Sequence[Writer],
    copied: Mapping[TopicPartition, Copied],
    resumed: Mapping[TopicPartition, Resumed],
    moves: Mapping[TopicPartition, MoveOrder],
    floors: Mapping[TopicPartition, int],
    home: Verdict = NO_WAY_HOME,
    occupied: Refuse,
    once: bool,
) -> tuple[tuple[Start, ...], dict[TopicPartition, Event]]:
    """Decides where each pair begins.

    Args:
        config: of the flow.
        source: asked for offsets.
        target: asked for configs.
        pairs: source and target partitions.
        facts: of the target.
        progress: the newest of each partition.
        source_epoch: gives the leader epoch of the source's batch left of a partition's position, or -1.
        history: gives the leader epochs of the source that were copied of a partition, of the topic with an id.
        compare: compares records of the source with their copies.
        writers: one for each group.
        copied: what this run did so far.
        resumed: where those go on that were handed out before.
        moves: where an operator wants them to go on.
        floors: recovery points that are known to be later than those on record.
        home: where what others wrote to copies may begin to go home.
        occupied: asked about partitions that would begin without a position, of topics with something to copy, or
            with a name of heartbeats.
        once: whether the copy ends at the source's present end.

    Returns:
        the starts, and the partitions that cannot begin now with what their operator must know.
    """
    sources, timeout_ms = [here for here, _ in pairs], patience_ms(config, len(pairs))
    before = {
        here: copied_log(progress[here], position, source_epoch(here, position), history)
        for here in sources
        if here in progress
        for position in [resumed[here].position if here in resumed else progress[here].position]
    }
    unmarked = [here for here in sources if (here in moves and moves[here].leader_epoch < 0) or here in home.floors]
    unmarked += [
        p for p in sources if _unplaced(p, progress, resumed) and (p in home.begins or begins_later(config, p))
    ]
    newest = newest_epochs(source, set(unmarked), timeout_ms)
    # Whoever orders a partition to go on elsewhere may have restored its source: records are compared then.
    before = {here: replace(one, restored=one.restored or here in moves) for here, one in before.items()}
    seen = _look_at_source(config, source, sources, progress, resumed, before, compare, timeout_ms)
    marked = {here: moves[here].leader_epoch for here in sources if here in moves and moves[here].leader_epoch >= 0}
    ordered = believed_ends(source, marked, timeout_ms)
    starts = seen.starts | {
        here: max(at, seen.starts.get(here, 0))
        for here, at in homeward_starts(home, seen.ends).items()
        if here in seen.starts
    }
    beginning = _beginning(config, [p for p in starts if p not in moves], starts, seen.ends)
    foreign = occupied([pair for pair in pairs if pair[0] in beginning])
    known = Known(
        progress=progress,
        topic_ids=seen.ids,
        target_ids=ids_of_topics(target, {there.topic for _, there in pairs}),
        starts=starts,
        oldest=seen.oldest,
        ends=seen.ends if once else {},
        targets=facts.ask(target, sorted({there.topic for _, there in pairs}), config.admin_timeout_ms).found,
        writers=writers,
        copied=copied,
        resumed=resumed,
        left_of={here: one.epoch for here, one in before.items()},
        histories={here: history(here, seen.ids.get(here.topic, "")) for here in sources},
        epochs=seen.epochs,
        log_ends=seen.log_ends,
        on=config.on,
        moves=moves,
        homeward=homeward_orders(config, home, progress, resumed, seen.ends),
        floors=floors,
        answers={p: Answer(seen.asked_ms, end) for p, end in seen.ends.items()},
        newest=newest,
        ordered=ordered.found,
        late=frozenset(p for p in starts if progress and p not in home.begins and begins_at_end(config, p)),
    )
    refused = absent(config, source, [p for p, e in seen.failed.items() if _code(e) == UNKNOWN_TOPIC_OR_PARTITION])
    unanswered = {**ordered.failed, **seen.failed}
    refused |= {p: Event(kind=kind_of(_code(e)), text=str(e)) for p, e in unanswered.items() if p not in refused}
    refused |= {
        here: event for here, event in {**foreign, **seen.misplaced, **seen.made_anew}.items() if here not in refused
    }
    refused |= {here: _unreadable(there) for here, there in pairs if there.topic not in known.targets}
    decided = [decide_start(here, there, known) for here, there in pairs if here not in refused]
    refused = {p: replace(e, first=progress[p].position) if p in progress else e for p, e in refused.items()}
    refused |= {stand.source: stand.event for stand in decided if isinstance(stand, Stand)}
    return tuple(start for start in decided if isinstance(start, Start)), refused


def copied_log(
    known: Progress, position: int, epoch: int, history: Callable[[TopicPartition, str], Sequence[Begun]]
) -> CopiedLog:
    """What was copied of a log, by the progress on record, up to a position that may be another one."""
    return CopiedLog(
        epoch=epoch,
        position=position,
        history=history(known.partition, known.topic_id),
        # Only a lane knows the epoch by what it has read; else the newest one that is on record is given.
        certain=position <= known.position and known.lane != "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the source said of its partitions.

    Attributes:
        asked_ms: when the first question left.
        ids: of its topics.
        oldest, ends: of its logs.
        failed: partitions without an answer.
        starts: where those begin that have no position; ``misplaced``: those of them that cannot.
        copied_before: progress of the topics that are still there.
        epochs: up to where the logs are what was copied of them, by leader epochs.
        log_ends: where the logs end of those of them whose leader epoch nobody knows.
        made_anew: partitions of which these answers may be of two topics of the name.
    """

    asked_ms: int
    ids: Mapping[str, str]
    oldest: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    failed: Mapping[TopicPartition, BrokerError | LinkError]
    starts: dict[TopicPartition, int]
    misplaced: dict[TopicPartition, Event]
    copied_before: Sequence[Progress]
    epochs: Mapping[TopicPartition, EpochEnd]
    log_ends: Mapping[TopicPartition, int]
    made_anew: dict[TopicPartition, Event]


def _look_at_source(
    config: FlowConfig,
    source: Cluster,
    sources: Sequence[TopicPartition],
    progress: Mapping[TopicPartition, Progress],
    resumed: Mapping[TopicPartition, Resumed],
    copied: Mapping[TopicPartition, CopiedLog],
    compare: Compare,
    timeout_ms: int,
) -> _Seen:
    """Asks for ids before the offsets and after them: offsets of one topic must not be taken for another's."""
    topics, asked_ms = {p.topic for p in sources}, now_ms()
    ids = ids_of_topics(source, topics)
    oldest = admin.find_offsets(source, sources, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.find_offsets(
        source, list(oldest.found), OffsetSpec.LATEST, isolation=config.isolation, timeout_ms=timeout_ms
    )
    fresh = [p for p in ends.found if _unplaced(p, progress, resumed)]
    starts, misplaced = find_starts(config, source, fresh, oldest.found, ends.found, timeout_ms)
    before = [progress[p] for p in ends.found if p in progress and progress[p].topic_id == ids.get(p.topic)]
    # Where a leader cannot tell where an epoch ends now, its lane finds out.
    asked = {p.partition: copied[p.partition] for p in before if copied[p.partition].epoch >= 0}
    unknown = {
        p.partition: max(p.position, resumed[p.partition].position) if p.partition in resumed else p.position
        for p in before
        if p.partition not in asked
    }
    uncompared: dict[TopicPartition, BrokerError | LinkError] = {}

    def look(spans: Mapping[TopicPartition, Span]) -> Results[TopicPartition, Looked]:
        compared = compare(spans)
        uncompared.update(compared.failed)
        return compared

    points = meeting_points(source, asked, look, timeout_ms)
    changed = changed_ids(ids, ids_of_topics(source, topics))
    return _Seen(
        asked_ms=asked_ms,
        ids=ids,
        oldest=oldest.found,
        ends=ends.found,
        failed={**oldest.failed, **ends.failed, **uncompared},
        starts=starts,
        misplaced=misplaced,
        copied_before=before,
        epochs=points.found,
        log_ends=_log_ends(source, unknown, ends.found, timeout_ms),
        made_anew={p: _between(p.topic, config.source.alias) for p in sources if p.topic in changed},
    )


def changed_ids(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[str]:
    """The topics that are not the same in two looks: made anew in between, or there in one of them only."""
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def check_ids(cluster: Cluster, known: Mapping[str, str]) -> None:
    """Sees that topics are those whose ids were asked for before their offsets, "" for one that was not there.

    Raises:
        SparkmirrorError: one of them was made anew since.
    """
    for topic in sorted(changed_ids({name: known[name] for name in known if known[name]}, _there(cluster, known))):
        raise SparkmirrorError(
            f"topic {topic} was deleted or made anew on cluster {cluster.alias} meanwhile, so its offsets are others "
            "now: nothing was changed; give the command again"
        )


def _there(cluster: Cluster, topics: Iterable[str]) -> dict[str, str]:
    return {name: identity for name, identity in ids_of_topics(cluster, topics).items() if identity}


def _between(topic: str, alias: str) -> Event:
    text = f"topic {topic} was made anew on cluster {alias} while it was asked for its offsets; it is asked again"
    return Event(kind=Kind.STOPPED, text=text)


def _beginning(
    config: FlowConfig,
    fresh: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> set[TopicPartition]:
    """The partitions of topics of which something would be copied that lies there already.

    A topic with a name of heartbeats is one of them while it is empty, too: whoever has created it on the source has
    chosen where its first record goes, and not who wrote ``topics``.
    """
    topics = {here.topic for here in fresh if starts.get(here, ends[here]) < ends[here]}
    return {here for here in fresh if here.topic in topics or is_heartbeats(config, here.topic)}


def homeward_starts(home: Verdict, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where copies begin that were never begun with; one that was made anew since has less than is on record."""
    return {
        here: ends[here] if at == AT_END else min(at, ends[here]) for here, at in home.begins.items() if here in ends
    }


def homeward_orders(
    config: FlowConfig,
    home: Verdict,
    progress: Mapping[TopicPartition, Progress],
    resumed: Mapping[TopicPartition, Resumed],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, MoveOrder]:
    """Orders to go on behind what somebody wrote who cannot be told from the copy's own writer."""
    by, found = f"the record of {config.name.back}, whose copies end there that no registered mirror wrote,", {}
    for here, floor in home.floors.items():
        known = resumed.get(here) or progress.get(here)
        if known is not None and known.position != NO_OFFSET and known.position < floor <= ends.get(here, NO_OFFSET):
            found[here] = MoveOrder(partition=here, to=floor, topic_id="", time_ms=now_ms(), by=by)
    return found


def _unplaced(
    here: TopicPartition, progress: Mapping[TopicPartition, Progress], resumed: Mapping[TopicPartition, Resumed]
) -> bool:
    """Whether a partition has no position on record."""
    known = resumed.get(here) or progress.get(here)
    return known is None or known.position == NO_OFFSET


def absent(config: FlowConfig, source: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Event]:
    """What happened to source partitions that were copied and cannot be found.

    Raises:
        LinkError: the source cannot be asked.
    """
    partitions = sorted(partitions)
    views = source.run(describe_topics, source, {p.topic for p in partitions}) if partitions else {}
    goes = "goes too, as sync.topic.deletes.enabled says, unless others have written to it"
    fate = goes if config.sync_topic_deletes_enabled else "stays as it is"
    return {
        p: _absence(p, views[p.topic], source.alias, "stays as it is" if is_homeward(config, p.topic) else fate)
        for p in partitions
    }


def _absence(partition: TopicPartition, view: TopicView, alias: str, fate: str) -> Event:
    if view.code in GONE:
        text = f"the source topic was deleted: its copy on the target {fate}, and nothing more comes"
        return Event(kind=Kind.SOURCE_DELETED, text=text)
    if view.code == 0 and partition.partition not in view.leaders:
        text = (
            f"the source topic was made anew with {len(view.leaders)} partitions: this one is not there any more, and "
            "its copy on the target stays as it is"
        )
        return Event(kind=Kind.SOURCE_SHRANK, text=text)
    code = view.code or LEADER_NOT_AVAILABLE
    error = broker_error(code, alias, topic=partition.topic, partition=partition.partition)
    return Event(kind=kind_of(code), text=str(error))


def _code(error: BrokerError | LinkError) -> int:
    return error.code if isinstance(error, BrokerError) else 0


def _unreadable(target: TopicPartition) -> Event:
    return Event(kind=Kind.STOPPED, text=f"the configs of {target.topic} cannot be read")


def _log_ends(
    source: Cluster, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], timeout_ms: int
) -> Mapping[TopicPartition, int]:
    """Where the logs end of partitions without a leader epoch: a record of a time may lie in an open transaction."""
    found = {here: ends[here] for here, position in positions.items() if position <= ends[here]}
    beyond = [here for here in positions if here not in found]
    if beyond:
        found |= admin.find_offsets(source, beyond, OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    return found
