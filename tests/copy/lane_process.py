"""A lane in a process of its own, which can be stopped: reads plan and configuration, writes the receipts."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from sparkmirror.copy.lane import Lane
from sparkmirror.kafka.cluster import Cluster, new_loop


def run(given: Path, result: Path) -> None:
    shift, config = pickle.loads(given.read_bytes())
    loop = new_loop(shift.shift)
    source = Cluster("A", config.source.consumer, role=shift.shift, loop=loop)
    target = Cluster("B", config.target.producer, role=shift.shift, loop=loop)
    try:
        receipts = loop.run(Lane(shift, config, source, target).copy)
    finally:
        source.close()
        target.close()
        loop.close()
    result.write_bytes(pickle.dumps(receipts))


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
