"""Faults put back, one at a time: the fast tests have to notice each of them.

    make mutants
    make mutants ARGS="torn released"        only those whose names contain one of these words

Each mutant is one change of a line or two that makes a promise of docs/guarantees.md untrue. The exit code is 1 where
tests pass all the same. `tests/test_mutants.py` sees that every mutant still finds its place in the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/sparkmirror")
AT_ONCE = 2
SECONDS = 900.0
FAILED = 1
"""The exit code of pytest where a test failed; other ones say that it could not run."""

FAST = "not kafka and not spark and not slow"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Attributes:
        name: what it is.
        file: of the package.
        before, after: the code as it is, which occurs once, and with the fault.
        tests: the folders whose fast tests have to notice it.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        return PACKAGE / self.file


def _in_copy(name: str, file: str, before: str, after: str) -> Mutant:
    return Mutant(name, f"copy/{file}", before, after, ("tests/copy",))


def _in_offsets(name: str, file: str, before: str, after: str) -> Mutant:
    return Mutant(name, f"offsets/{file}", before, after, ("tests/offsets",))


STORIES = ("tests/flow/test_story.py",)

MUTANTS = (
    # A partition has one holder at a time.
    _in_copy(
        "no last progress before a handover",
        "handover.py",
        "        await publisher.publish(partitions, final=True)\n",
        "",
    ),
    _in_copy(
        "a lost answer before a handover counts as settled",
        "handover.py",
        "            partition.unsettled = not handed.settled\n",
        "            partition.unsettled = False\n",
    ),
    _in_copy(
        "the last record is not handed on",
        "handover.py",
        "handed.position, handed.sequence, handed.last, opened",
        "handed.position, handed.sequence, partition.last, opened",
    ),
    _in_copy(
        "the lease lasts as long as the read took",
        "watch.py",
        "            lease.renew(began)\n",
        "            lease.renew(now())\n",
    ),
    _in_copy(
        "a lane that was given up hands on",
        "lane.py",
        "        self.watch.stop()\n        if self.lease.ended:\n",
        "        self.watch.stop()\n        if False:\n",
    ),
    _in_copy(
        "a lane that was given up publishes",
        "watch.py",
        "    async def _publish(self) -> None:\n        if self._lane.lease.holds:\n",
        "    async def _publish(self) -> None:\n        if True:\n",
    ),
    _in_copy(
        "segments that nothing reached stay at the end of a shift",
        "progress.py",
        "            if final or release:\n                unreached",
        "            if release:\n                unreached",
    ),
    _in_copy(
        "segments that nothing reached stay where a partition stops",
        "progress.py",
        "            if final or release:\n                unreached",
        "            if final:\n                unreached",
    ),
    _in_copy(
        "a released partition is published by its former holder",
        "progress.py",
        "if partition.position != NO_OFFSET and not partition.released]",
        "if partition.position != NO_OFFSET]",
    ),
    _in_copy(
        "a stopped partition is still fetched",
        "partition.py",
        "        self._let_go()\n        self.abandon()\n        self.load.on_stop(self)\n",
        "        self._let_go()\n        self.abandon()\n",
    ),
    _in_copy(
        "a stopped partition keeps what waits",
        "partition.py",
        "        self._let_go()\n        self.abandon()\n        self.load.on_stop(self)\n",
        "        self._let_go()\n        self.load.on_stop(self)\n",
    ),
    _in_copy(
        "the first record of an epoch opens no piece where it lies right behind another",
        "partition.py",
        "if self.opened and self.last.target != NO_OFFSET else None",
        "if self.last.target != NO_OFFSET else None",
    ),
    # What the map has lost between two epochs.
    _in_offsets(
        "nothing is lost between two epochs",
        "losses.py",
        "lacking = part.known and begins and (number in unsure or self._lacks(part, found))",
        "lacking = False",
    ),
    # Batches without an answer, and brokers that forget writers.
    _in_copy(
        "a batch that may be appended is forgotten to be",
        "partition.py",
        "batch.open = batch.open or may_be_appended(code)",
        "batch.open = may_be_appended(code)",
    ),
    _in_copy(
        "what brokers remember only grows",
        "partition.py",
        "        self.remembered_ms = self.guard.state_ms(batch.newest_ms)\n",
        "        self.remembered_ms = max(self.remembered_ms, self.guard.state_ms(batch.newest_ms))\n",
    ),
    # The target loses the end of a log.
    _in_copy(
        "an idle partition believes its leader",
        "footing.py",
        "return self.leader_epoch != NO_EPOCH and now - self._known_at > PAUSE_SECONDS",
        "return False",
    ),
    _in_copy(
        "a leader of another epoch is not asked",
        "footing.py",
        "        return self._verified != self.question()\n",
        "        return False\n",
    ),
    _in_copy(
        "the epoch of a partition without a leader counts",
        "leaders.py",
        "        if leader.node != NO_LEADER:\n            partition.footing",
        "        if True:\n            partition.footing",
    ),
    _in_copy(
        "a leader that does not answer is not learnt again",
        "leaders.py",
        "            else:\n                partition.lost_leader = True\n",
        "",
    ),
    _in_offsets(
        "a takeover does not look across epochs",
        "takeover.py",
        "if writer == observed.lineage.newest and not _has_acknowledged(observed, writer):",
        "if False:",
    ),
    _in_offsets(
        "a hole in a torn log counts as the cleaner's",
        "takeover.py",
        "        return target < self.cut\n",
        "        return True\n",
    ),
    _in_offsets(
        "a batch of another driver does not matter",
        "takeover.py",
        "b.epoch > fence.epoch and not b.control",
        "False",
    ),
    _in_offsets(
        "a takeover does not wait for its fence",
        "takeover.py",
        "            return ReadFrom(offset=tail.since)  # its marker",
        "            pass  # its marker",
    ),
    _in_offsets(
        "a torn internal topic is believed",
        "writers.py",
        "    return any(writer.epoch != then.get(writer.producer_id, writer.epoch - 1) + 1 for writer in given)\n",
        "    return False\n",
    ),
    Mutant(
        "the end of a target's log is not held against the record",
        "flow/trust.py",
        "    if seen.end < known:\n",
        "    if False:\n",
        ("tests/flow",),
    ),
    Mutant(
        "a position of a run that did not end counts",
        "flow/trust.py",
        "    if progress.generation <= seen.exact_after:\n",
        "    if False:\n",
        ("tests/flow",),
    ),
    # The source is not what it was.
    _in_offsets(
        "a deposed leader's own answer tells where two logs part",
        "source_history.py",
        "    return EpochEnd(told.epoch, min(told.end, _end(seen, told.epoch)))\n",
        "    return told\n",
    ),
    _in_offsets(
        "an epoch that was given out twice counts as the same",
        "source_history.py",
        "            went_back = went_back or looked.alike is Alike.OTHER\n",
        "            return EpochEnd(mine.epoch, point)\n",
    ),
    _in_offsets(
        "what differs behind the first records is the same",
        "source_history.py",
        "    return EpochEnd(epoch, looked.end, looked.proven) if looked.differs else EpochEnd",
        "    return EpochEnd",
    ),
    _in_offsets(
        "an epoch of a restored log counts though its copies are gone",
        "source_history.py",
        "            if looked.alike is Alike.SAME or not went_back:\n",
        "            if looked.alike is not Alike.OTHER:\n",
    ),
    _in_offsets(
        "logs part at the first record that differs",
        "record_comparison.py",
        "            return Looked(Alike.SAME, self._last_same, differs=True",
        "            return Looked(Alike.SAME, self._same_to, differs=True",
    ),
    _in_offsets(
        "a loss that reaches over the begin of a newer source is not told",
        "takeover.py",
        "        event = _lost_since(observed, writer, last, min(position, *began)) if began else None\n",
        "        event = None\n",
    ),
    _in_offsets(
        "what an older source has lost passes over the newer one",
        "takeover.py",
        "_gone_from_the_source(pieces, batch, _began(observed, writer))",
        "_gone_from_the_source(pieces, batch, ())",
    ),
    _in_offsets(
        "a place that an order has corrected counts",
        "takeover.py",
        "if newer in last or _has_acknowledged(observed, newer)",
        "if True",
    ),
    _in_offsets(
        "what the cleaner removed is copied again behind the begin of a newer source",
        "takeover.py",
        "    if had.target <= last.target if _began(observed, writer) else had.source <= last.source:\n",
        "    if had.source <= last.source:\n",
    ),
    _in_offsets(
        "groups find only what was copied once more",
        "passed_over.py",
        "    return passed\n",
        "    return {}\n",
    ),
    _in_offsets(
        "an order whose end is lost has copied all again",
        "passed_over.py",
        "            found[number] = turn._replace(end=end, holds=min(turn.holds, end), sure=False)\n",
        "            pass\n",
    ),
    _in_offsets(
        "what was copied first leaves the record at an order",
        "bounds.py",
        "        if writer not in back:\n",
        "        if True:\n",
    ),
    _in_offsets(
        "what the copy still has leaves the record with the source's log",
        "bounds.py",
        "        first = min(_first_on_source(pieces, log_start, cuts), _first_on_target(pieces, copy_start, cuts))\n",
        "        first = _first_on_source(pieces, log_start, cuts)\n",
    ),
    Mutant(
        "an epoch that ended in order goes on",
        "offsets/map.py",
        "            last = self._ended.get(writer) if last is None and not newest else last\n",
        "",
        ("tests/offsets/test_map.py",),
    ),
    Mutant(
        "an order over a loss leaves what is lost on the map",
        "flow/on_record.py",
        "        return start.instead_of\n",
        "        return NO_OFFSET\n",
        STORIES,
    ),
    Mutant(
        "what was in another target topic counts",
        "flow/on_record.py",
        "    if known is not None and start.anew and _is_of_another_topic(state, start):\n",
        "    if False:\n",
        STORIES,
    ),
    Mutant(
        "a gap is looked for in one epoch alone",
        "offsets/takeover.py",
        "    if sound is None:\n        return _before_the_first(observed, writer, gap.first)\n",
        "    if sound is None:\n        sound, gap = pieces.first.offset - 1, gap._replace(sound=0)\n",
        STORIES,
    ),
    Mutant(
        "what a former leader brings back stays off the map",
        "offsets/takeover.py",
        "        targets=(*returned.targets, *targets),\n",
        "        targets=targets,\n",
        STORIES,
    ),
    Mutant(
        "places that a former leader's log lacks stay on the map where another one comes back",
        "offsets/takeover.py",
        "    taken = any(_has_places(pieces, batch.base_offset, batch.last_offset) for batch in others)\n",
        "    taken = False\n",
        STORIES,
    ),
    Mutant(
        "a batch of the internal topic cuts through what concerns a partition",
        "kafka/store.py",
        "by_partition.setdefault(partition_of(pair[0]), [])",
        "by_partition.setdefault(pair[0], [])",
        ("tests/kafka/test_store.py",),
    ),
    Mutant(
        "what the target has lost stays on the map",
        "offsets/takeover.py",
        "    if not isinstance(decision, Resume) or event is None or event.kind is not Kind.TARGET_TAIL_LOST:\n",
        "    if True:\n",
        STORIES,
    ),
    Mutant(
        "a loss of what an order has copied again is not reported",
        "offsets/takeover.py",
        "    if lost is None or not isinstance(decision, Resume | Begin):\n",
        "    if True:\n",
        STORIES,
    ),
    Mutant(
        "an order that was begun again behind a hole is none",
        "offsets/passed_over.py",
        "before.end == before.first <= first",
        "before.end == before.first == first",
        STORIES,
    ),
    Mutant(
        "those who wait for a turn are forgotten",
        "kafka/signal.py",
        "                self._queue.popleft().success(None)\n",
        "                self._queue.popleft()\n",
        ("tests/kafka",),
    ),
    Mutant(
        "an operation stops at a marker",
        "duties/past_markers.py",
        "        passed |= standing\n    return passed\n",
        "        break\n    return passed\n",
        ("tests/duties",),
    ),
    _in_offsets(
        "thinned places between two flows are exact",
        "interleaved.py",
        "    return counted if sure else max(counted, int(source < committed))\n",
        "    return counted\n",
    ),
    Mutant(
        "leader epochs of what is left out are unknown",
        "flow/left_out.py",
        "        if each.epoch not in known\n",
        "        if False\n",
        ("tests/flow",),
    ),
    Mutant(
        "a begin of a leader epoch behind the position counts",
        "flow/positions.py",
        "    return 0 <= leader_epoch < begun.epoch\n",
        "    return False\n",
        ("tests/flow",),
    ),
    _in_copy(
        "a follower is kept for ever",
        "read_replica.py",
        "        return self.followed and now >= self._until\n",
        "        return False\n",
    ),
    _in_copy(
        "a changed target goes on as it was planned",
        "target_changes.py",
        "    if facts == planned or partition.error:\n",
        "    if True:\n",
    ),
    # Groups.
    Mutant(
        "what lies in a copy that was created again is the copy",
        "failover/moves.py",
        "    if partition in sight.copy_recreated:\n",
        "    if False:\n",
        ("tests/failover",),
    ),
    Mutant(
        "two groups of one name are one for a failback",
        "failover/homeward.py",
        "    if group in sight.apart and",
        "    if False and",
        ("tests/failover",),
    ),
    _in_offsets(
        "a commit of a consumer is set back",
        "group_commits.py",
        "    own = None if commit is None else commit.at(there)\n",
        "    own = commit\n",
    ),
    _in_offsets(
        "what a group has left behind moves it",
        "group_commits.py",
        "    return Verdict.LEFT_BEHIND if left and",
        "    return Verdict.LEFT_BEHIND if False and",
    ),
    _in_offsets(
        "a commit that was tried is nobody's",
        "group_commits.py",
        "[0] == commit.downstream\n        }\n        for group, own in tried.items()",
        "[0] == -2\n        }\n        for group, own in tried.items()",
    ),
    _in_offsets(
        "a group that came back has still left something behind",
        "left_offsets.py",
        "if back.get(one.group, -1) > one.time_ms)",
        "if False)",
    ),
    _in_offsets(
        "at a release only what was on record counts as left behind",
        "left_offsets.py",
        "            all_of |= _all_of(known, group, found[group], held_ms, lost)\n",
        "            pass\n",
    ),
    Mutant(
        "another cluster's silence erases groups",
        "duties/lost_groups.py",
        "    if is_another(before, asked.origin):\n",
        "    if False:\n",
        ("tests/duties",),
    ),
    Mutant(
        "a hidden topic's groups are gone",
        "duties/lost_groups.py",
        "if known[key].topic not in certain)",
        "if False)",
        ("tests/duties",),
    ),
    Mutant(
        "an operation that was given up hides the one before",
        "failover/unfinished.py",
        "    return {} if before is None else {ENDED_BEFORE: before}\n",
        "    return {}\n",
        ("tests/failover",),
    ),
    Mutant(
        "a flow back that stands still sets groups back that a failback has placed",
        "duties/groups.py",
        "    if left:\n        return in_empty(meet_at_the_end(",
        "    if False:\n        return in_empty(meet_at_the_end(",
        ("tests/duties",),
    ),
    Mutant(
        "a group goes over copies that are not on record",
        "offsets/interleaved.py",
        "    if not settled and _may_go_over(found, until):\n",
        "    if False:\n",
        ("tests/offsets", "tests/duties"),
    ),
    Mutant(
        "what the leader knows of the flow's producer does not count",
        "duties/under_way.py",
        "    return state == ProducerState(",
        "    return True or state == ProducerState(",
        ("tests/duties",),
    ),
    _in_copy(
        "an answer for a batch that somebody else has written counts",
        "target_changes.py",
        "    if broker_time and not planned and (changed or stamped_ms != batch.newest_ms):",
        "    if False:",
    ),
    _in_copy(
        "a batch that was sent twice counts with the time of another one",
        "target_changes.py",
        "(changed or stamped_ms != batch.newest_ms)",
        "changed",
    ),
    _in_copy(
        "what the leader remembers of the writer after a pause does not count",
        "leaders.py",
        "partition.compare_writer(state.epoch, state.last_sequence)",
        "pass",
    ),
    Mutant(
        "forged batches are believed where the map is whole",
        "flow/takeover.py",
        "    return behind_the_forged(observed, decision.last) if held is Held.OTHER else None",
        "    return None",
        ("tests/flow/test_takeover.py",),
    ),
    _in_offsets(
        "records that the log alone tells of are not held against the source where others have written",
        "takeover.py",
        "            (first + each, b.base_offset + each)",
        "            (first + each, b.base_offset)",
    ),
    Mutant(
        "what a copy has lost keeps no flow from being handed over where others have filled it up",
        "flow/still_copied.py",
        "for at in (answers.lost, answers.target_ends)",
        "for at in (answers.target_ends,)",
        ("tests/flow/test_still_copied.py",),
    ),
    Mutant(
        "what is not answered is nothing lost",
        "flow/still_copied.py",
        "    if place in answers.unanswered or place not in answers.target_ends:",
        "    if place not in answers.target_ends:",
        ("tests/flow/test_still_copied.py",),
    ),
    Mutant(
        "a run that copies nothing ends cleanly whatever its internal topic has lost",
        "flow/restoring.py",
        "    ends = [opened.stopped()] if over and not opened.store.lacks else []",
        "    ends = [opened.stopped()]",
        ("tests/flow/test_restoring.py",),
    ),
    Mutant(
        "progress that is put on record again hides what the internal topic has lost",
        "kafka/store.py",
        "        if isinstance(record, Progress) and not record.restored:",
        "        if isinstance(record, Progress):",
        ("tests/kafka/test_store.py",),
    ),
    Mutant(
        "nobody is told that the internal topic of a settled flow still lacks entries of the offset map",
        "flow/settling.py",
        "        tell(text)",
        "        pass",
        ("tests/flow/test_settling_ends.py",),
    ),
    Mutant(
        "lanes believe the word of a run before theirs that comes late",
        "copy/control.py",
        "            self.newest = self.newest if named.is_before(self.newest) else named",
        "            self.newest = named",
        ("tests/copy/test_control.py",),
    ),
    Mutant(
        "the driver's epoch alone says which run is the earlier one",
        "copy/control.py",
        " and self.generation <= other.generation",
        "",
        ("tests/copy/test_control.py",),
    ),
    Mutant(
        "a driver does not see that an earlier word of its own is the newest one",
        "flow/signs.py",
        'self.follower, self.doubted = "", named.is_before(self.announced)',
        'self.follower, self.doubted = "", False',
        ("tests/flow/test_signs.py",),
    ),
    Mutant(
        "a writer that has only announced its first batch has written nothing",
        "duties/under_way.py",
        "    writer = newest or progress.writer\n",
        "    writer = progress.writer\n",
        ("tests/duties",),
    ),
    Mutant(
        "what the flow back has met behind the map does not count",
        "duties/under_way.py",
        "        return self.met <= (0 if end is None else end.target + 1)\n",
        "        return True\n",
        ("tests/duties",),
    ),
    Mutant(
        "a producer that the leader has forgotten has written nothing",
        "duties/under_way.py",
        "        return certain\n",
        "        return True\n",
        ("tests/duties",),
    ),
    Mutant(
        "a flow back that has not begun with a partition brings nothing of it",
        "duties/flow_back.py",
        "    return [place for place in places if place.topic in chosen]\n",
        "    return []\n",
        ("tests/duties",),
    ),
    Mutant(
        "a flow back that has written nothing yet brings nothing",
        "duties/flow_back.py",
        "        offsets = NOTHING_BROUGHT\n",
        "        pass\n",
        ("tests/duties",),
    ),
    Mutant(
        "a log that parts from what the flow back has copied is the same one",
        "duties/flow_back.py",
        "        offsets = offsets.below(parted)\n",
        "        pass\n",
        ("tests/duties",),
    ),
    Mutant(
        "a group that is ahead of a flow that has copied nothing is level",
        "offsets/translation.py",
        "if committed <= max(offsets.position, 0) else Reason.AHEAD)",
        "if True else Reason.AHEAD)",
        ("tests/offsets", "tests/duties"),
    ),
    Mutant(
        "a group that may have been moved before others used it is called exact",
        "failover/moves.py",
        "replace(found, text=USED) if sure else",
        "replace(found, text=USED) if True else",
        ("tests/failover",),
    ),
    Mutant(
        "a failover takes groups over copies that it could not read",
        "failover/moves.py",
        "settled=partition not in sight.unsettled)",
        "settled=True)",
        ("tests/failover",),
    ),
    Mutant(
        "the flow back carries groups while a failover moves them",
        "duties/flow_back.py",
        '        "failover": ("MOVING", "VERIFYING"),\n',
        "",
        ("tests/duties",),
    ),
    Mutant(
        "a failover that has not ended has taken groups away for the flow back",
        "duties/flow_back.py",
        "for one in state.left.values() if one.time_ms < until)\n",
        "for one in state.left.values())\n",
        ("tests/duties",),
    ),
    Mutant(
        "a group that lives on the target is moved",
        "failover/moves.py",
        "    if here is not None and here.placed and found.before != NO_OFFSET:\n",
        "    if False:\n",
        ("tests/failover",),
    ),
)


def main(words: list[str]) -> int:
    """Tries the mutants, two at a time; gives the exit code."""
    wanted = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    console = Console(soft_wrap=True, highlight=False, markup=False)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(AT_ONCE):
            tree = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", tree / "src")
            trees.put(tree)
        survivors = [name for name in pool.map(lambda mutant: _survives(mutant, trees, console), wanted) if name]
    console.print(f"{len(wanted)} mutants, {len(survivors)} survived", *survivors, sep="\n  ")
    return 1 if survivors else 0


def _survives(mutant: Mutant, trees: SimpleQueue[Path], console: Console) -> str:
    """The mutant's name where no test notices it, or ""."""
    tree = trees.get()
    path = tree / mutant.path
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", FAST, *mutant.tests],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(tree / "src")},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    finally:
        path.write_text(text, encoding="utf-8")
        trees.put(tree)
    killed = done.returncode == FAILED
    line = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), done.stdout[-200:])
    console.print(f"{'killed' if killed else 'SURVIVED'}: {mutant.name}: {line}")
    return "" if killed else mutant.name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
