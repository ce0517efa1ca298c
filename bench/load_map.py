"""How long a driver needs to read the positions and the map of many partitions from a real broker.

    load_map.py fill SERVERS TOPIC PARTITIONS     one progress and the map for each partition
    load_map.py load SERVERS TOPIC PARTITIONS     reads them as a driver does, and prints what it took, as JSON

Loading is a process of its own: its memory is nobody else's.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from sparkmirror.config import ClientSettings
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress, Record
from sparkmirror.offsets.segments import Opening, segments_of, targets_of

TIMEOUT_MS = 120_000
PER_TOPIC, GROUPS, AT_A_TIME = 100, 8, 10_000
PROGRESS_RECORDS, HOLE = 100, 50


def records_of(number: int) -> list[Record]:
    """What is on record of one partition: a hole in the middle of what was copied."""
    place = TopicPartition(f"topic-{number // PER_TOPIC:05}", number % PER_TOPIC)
    writer = Writer(producer_id=1_000 + number % GROUPS, epoch=3)
    openings = [Opening(0, 0), Opening(HOLE, 2 * HOLE)]
    pieces: list[Record] = [
        segments_of(place, writer, openings, unguarded=False, anew=False),
        targets_of(place, writer, openings[:1]),
    ]
    progress = Progress(
        partition=place,
        writer=writer,
        generation=4,
        position=HOLE + PROGRESS_RECORDS,
        next_sequence=PROGRESS_RECORDS,
        sequence=PROGRESS_RECORDS - 1,
        source=HOLE + PROGRESS_RECORDS - 1,
        target=PROGRESS_RECORDS - 1,
        end=HOLE + PROGRESS_RECORDS,
        topic_id=f"{number // PER_TOPIC:032x}",
        target_id=f"{number // PER_TOPIC:032x}",
        settled=True,
        records=PROGRESS_RECORDS,
        bytes=12_345,
        time_ms=int(time.time() * 1000),
        lane="lane-3.17",
    )
    return [*pieces, progress]


def fill(store: Store, partitions: int) -> None:
    """Writes everything."""
    for first in range(0, partitions, AT_A_TIME):
        some = range(first, min(partitions, first + AT_A_TIME))
        store.write([record for number in some for record in records_of(number)])


def load(store: Store, partitions: int) -> dict[str, float]:
    """Reads everything, and looks one offset of each partition up."""
    before = _resident_mib()
    began, cpu = time.monotonic(), time.process_time()
    store.follow()
    figures = {
        "load_s": time.monotonic() - began,
        "load_cpu_s": time.process_time() - cpu,
        "map_mib": _resident_mib() - before,
    }
    state = store.state
    found = [
        state.maps[place].offsets(progress, ()).source_to_target(HOLE) for place, progress in state.progress.items()
    ]
    if len(found) != partitions or set(found) != {HOLE}:
        raise SystemExit(f"{len(found)} of {partitions} partitions were read, with these offsets: {set(found)}")
    return figures


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


def main() -> None:
    """Does one of the two."""
    what, servers, topic, partitions = sys.argv[1:]
    cluster = Cluster("target", ClientSettings(bootstrap_servers=tuple(servers.split(","))), role="bench")
    try:
        store = Store(cluster, topic, TIMEOUT_MS)
        if what == "fill":
            fill(store, int(partitions))
        else:
            print(json.dumps(load(store, int(partitions))))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
