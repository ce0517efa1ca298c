"""How often the records of a target repeat, and that none is missing or out of order; by an independent client."""

from __future__ import annotations

from sparkmirror.lab.records import Reader, extents, row_of


def rows(cluster, topic):
    """All committed records by partition, in order."""
    found: dict[int | None, list[str]] = {partition: [] for partition in extents(cluster.bootstrap_servers, topic)}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                found[message.partition()].append(repr(row_of(message)))
    return found


def repeats(source, target, topic, target_topic):
    """Checks that a target holds all records in order, but for whole stretches that repeat; gives how many repeat."""
    copies = rows(target, target_topic)
    again = 0
    for partition, records in rows(source, topic).items():
        places = {record: place for place, record in enumerate(records)}
        assert len(places) == len(records), "the test needs records that differ"
        highest = before = -1
        for copy in copies[partition]:
            place = places[copy]
            assert place <= highest + 1, f"{topic}-{partition}: records {highest + 1} to {place - 1} were left out"
            assert place in {before + 1, highest + 1} or place <= before, f"{topic}-{partition}: a hole in a repeat"
            again += place <= highest
            highest, before = max(highest, place), place
        assert highest == len(records) - 1, f"{topic}-{partition}: the last records are missing"
    return again
