"""What is measured, with which data, and what is aimed at.

SCALE multiplies the number of records and the seconds of the latency run; 1 is the full benchmark.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

SCALE = float(os.environ.get("SCALE", "1"))
PARTITIONS = 8
BATCH_BYTES = 64 * 1024
JSON_LINES = 20_000
LINK_DELAY_MS = 50.0
"""How long a byte is on its way over the link, in either direction."""
FULL_BATCH_BYTES, IN_FLIGHT = 1 << 20, 5
"""The largest batch that a topic takes by default, and how many of a partition a broker remembers of a producer."""


class Kind(Enum):
    """How a workload is measured (measure.py)."""

    RATE = "rate"
    START = "start"
    LATENCY = "latency"
    MEMORY = "memory"
    MAP = "map"
    RECOVERY = "recovery"
    GROUPS = "groups"
    FAILOVER = "failover"
    TRANSACTIONS = "transactions"


class Peer(Enum):
    """Who copies."""

    MIRROR_MAKER = "mirrormaker2"
    SPARKMIRROR = "sparkmirror"
    RAW = "raw"


ALL = (Peer.MIRROR_MAKER, Peer.SPARKMIRROR, Peer.RAW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row group of the table.

    Attributes:
        name: as ``--only`` takes it.
        title: for people.
        kind: how it is measured.
        records: how many, before SCALE; of the map, partitions.
        size: bytes of one record's value; of JSON, about.
        batch_size, codec: the producer's settings.
        partitions: of the topic.
        seconds: of a latency run, before SCALE.
        link: whether the target is reached over the link.
        at_most_s: copying is measured for so long at most, whatever is left then; 0 for no limit.
        peers: who takes part.
        rounds: at most so many.
        settings: further lines of the configuration file that MirrorMaker 2 and sparkmirror share, with ``{source}``,
            ``{target}`` and ``{port}``, a free one, in keys and values.
        transactions: whether a peer writes in transactions.
        by_name_only: runs only when ``--only`` names it.
        checkpoints_s: at which interval MirrorMaker 2 writes checkpoints, by the settings.
    """

    name: str
    title: str
    kind: Kind
    records: int = 0
    size: int = 100
    batch_size: int = BATCH_BYTES
    codec: str = "none"
    json: bool = False
    partitions: int = PARTITIONS
    seconds: float = 0.0
    link: bool = False
    at_most_s: float = 0.0
    peers: tuple[Peer, ...] = ALL
    rounds: int = 1_000
    settings: dict[str, str] = field(default_factory=dict)
    transactions: bool = False
    by_name_only: bool = False
    checkpoints_s: float = 60.0

    @property
    def scaled_records(self) -> int:
        """Records of this run."""
        return max(1_000, round(self.records * SCALE))

    @property
    def scaled_seconds(self) -> float:
        """Seconds of this run; several shifts always, as ``shift.max.ms`` is scaled with it."""
        return max(10.0, self.seconds * SCALE)

    @property
    def line_bytes_per_s(self) -> float:
        """What full batches could bring over the link: so many in flight of each partition, one round trip each."""
        return self.partitions * IN_FLIGHT * FULL_BATCH_BYTES / (2 * LINK_DELAY_MS / 1000)


SHIFTS = {"shift.max.ms": str(max(2_000, round(60_000 * min(1.0, SCALE))))}


EXACTLY_ONCE = {
    "{target}.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://localhost:{port}",
}
"""What makes MirrorMaker 2 write in transactions (KIP-618, KIP-710). sparkmirror does nothing else than always."""


GROUPS = {
    "{source}->{target}.sync.group.offsets.enabled": "true",
    "{source}->{target}.groups": "bench-.*",
}

OFTEN = {
    "{source}->{target}.sync.group.offsets.interval.seconds": "1",
    "{source}->{target}.emit.checkpoints.interval.seconds": "1",
    "{source}->{target}.refresh.groups.interval.seconds": "1",
}


def _over_the_link(name: str, title: str, records: int, **more: Any) -> Workload:
    """MirrorMaker 2 sends a batch in each round trip: its rate is soon known, and it need not copy everything."""
    return Workload(
        name=name,
        title=f"link of 100 ms: {title}",
        kind=Kind.RATE,
        records=records,
        partitions=1,
        link=True,
        at_most_s=30.0,
        peers=ALL[:2],
        **more,
    )


WORKLOADS = (
    Workload(name="small", title="5 M records of 100 B", kind=Kind.RATE, records=5_000_000, size=100),
    Workload(name="kib", title="1 M records of 1 KiB", kind=Kind.RATE, records=1_000_000, size=1024),
    Workload(
        name="json", title="1 M JSON of 640 B, lz4", kind=Kind.RATE, records=1_000_000, size=640, codec="lz4", json=True
    ),
    Workload(name="single", title="300,000 batches of one record", kind=Kind.RATE, records=300_000, batch_size=0),
    Workload(
        name="exactly-once",
        title="5 M records of 100 B, MirrorMaker 2 with transactions",
        kind=Kind.RATE,
        records=5_000_000,
        peers=ALL[:2],
        settings=EXACTLY_ONCE,
        transactions=True,
    ),
    _over_the_link("link-one", "batches of one record of 100 B", 4_000_000, batch_size=0),
    _over_the_link(
        "link-one-kib", "batches of one record of 1 KiB", 450_000, size=1024, batch_size=0, by_name_only=True
    ),
    _over_the_link("link-16k", "batches of 16 KiB", 400_000, size=1024, batch_size=16 << 10),
    _over_the_link(
        "link-16k-lz4", "batches of 16 KiB, lz4", 1_500_000, size=640, batch_size=16 << 10, codec="lz4", json=True
    ),
    Workload(name="start", title="start to first copied record", kind=Kind.START, peers=ALL[:2]),
    Workload(name="latency", title="200 records/s for 300 s", kind=Kind.LATENCY, seconds=300, settings=SHIFTS),
    Workload(
        name="latency-tuned",
        title="200 records/s, linger.ms = 0",
        kind=Kind.LATENCY,
        seconds=300,
        settings=SHIFTS | {"{target}.producer.linger.ms": "0"},
        by_name_only=True,
    ),
    Workload(
        name="memory",
        title="memory over 10 GB of 1 KiB records",
        kind=Kind.MEMORY,
        records=10_000_000,
        size=1024,
        peers=(Peer.SPARKMIRROR,),
        rounds=1,
    ),
    Workload(
        name="groups",
        title="groups in 1 M records, offsets every second",
        kind=Kind.GROUPS,
        records=1_000_000,
        partitions=1,
        peers=ALL[:2],
        settings=GROUPS | OFTEN,
        checkpoints_s=1.0,
    ),
    Workload(
        name="groups-60",
        title="groups in 1 M records, default intervals",
        kind=Kind.GROUPS,
        records=1_000_000,
        partitions=1,
        peers=ALL[:2],
        settings=GROUPS,
    ),
    Workload(
        name="failover",
        title="failover, 100 groups, 100 partitions",
        kind=Kind.FAILOVER,
        records=1_000_000,
        partitions=100,
        peers=(Peer.SPARKMIRROR,),
        settings=GROUPS,
    ),
    Workload(
        name="transactions",
        title="100 B, a transaction's marker per 10 records",
        kind=Kind.TRANSACTIONS,
        records=50_000_000,
        peers=ALL[:2],
    ),
    Workload(
        name="map",
        title="positions and map of 100,000 partitions",
        kind=Kind.MAP,
        records=100_000,
        peers=(Peer.SPARKMIRROR,),
    ),
    Workload(
        name="recovery",
        title="1,000 partitions, lane and driver killed",
        kind=Kind.RECOVERY,
        partitions=1_000,
        peers=(Peer.SPARKMIRROR,),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What sparkmirror aims at: a figure of it, divided by the same figure of ``against`` (nothing when None)."""

    workload: str
    figure: str
    against: Peer | None
    limit: float
    at_least: bool

    def met(self, value: float) -> bool:
        """Says whether the value is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}" + ("" if self.against is None else " ×")


def _rate(workload: str, mirror_maker: float, raw: float | None) -> tuple[Target, ...]:
    limits = ((Peer.MIRROR_MAKER, mirror_maker), (Peer.RAW, raw))
    return tuple(
        Target(workload=workload, figure="records_per_s", against=peer, limit=limit, at_least=True)
        for peer, limit in limits
        if limit is not None
    )


def _link(workload: str) -> tuple[Target, ...]:
    share = Target(workload=workload, figure="line_share", against=None, limit=0.8, at_least=True)
    return (*_rate(workload, 5, None), share)


def _most(workload: str, figure: str, limit: float, against: Peer | None = Peer.MIRROR_MAKER) -> Target:
    return Target(workload=workload, figure=figure, against=against, limit=limit, at_least=False)


TARGETS = (
    *_rate("small", 5, 0.6),
    *_rate("kib", 2.5, 0.6),
    *_rate("json", 5, 0.6),
    *_rate("single", 5, None),
    *_rate("exactly-once", 5, None),
    *_link("link-one"),
    *_link("link-16k"),
    *_link("link-16k-lz4"),
    _most("kib", "cpu_s_per_gb", 0.2),
    _most("latency", "p50_ms", 1.0),
    _most("latency", "p99_ms", 1.5),
    _most("latency", "p999_ms", 10.0),
    _most("start", "start_s", 1.0),
    _most("memory", "worker_mib", 300, None),
    _most("memory", "growth", 1.1, None),
    *(_most("groups", f"repeated_{share}", 0, None) for share in (10, 50, 90, 100)),
    *(_most("groups-60", f"repeated_{share}", 0, None) for share in (10, 50, 90, 100)),
    _most("failover", "groups_ready_s", 10.0, None),
    _most("map", "load_s", 10.0, None),
    _most("recovery", "lane_back_s", 10.0, None),
    _most("recovery", "takeover_s", 15.0, None),
)


def write_json_lines(path: Path) -> float:
    """Writes orders as a shop would send them, the same at every run; returns the mean bytes of a line."""
    chance = random.Random(20_240_901)
    lines = [json.dumps(_order(chance, number), separators=(",", ":")) for number in range(JSON_LINES)]
    path.write_text("\n".join(lines))
    return sum(map(len, lines)) / len(lines)


def _order(chance: random.Random, number: int) -> dict[str, object]:
    item_count = chance.randint(3, 6)
    return {
        "order_id": f"{chance.getrandbits(64):016x}",
        "sequence": number,
        "created_at": f"2024-09-{chance.randint(10, 30)}T{chance.randint(10, 23)}:{chance.randint(10, 59)}:07Z",
        "customer": {
            "id": chance.randint(1, 2_000_000),
            "name": chance.choice(("Ada Miller", "Grace Okoye", "Edsger Tanaka", "Barbara Costa")),
            "email": f"{chance.getrandbits(40):010x}@example.org",
            "tier": chance.choice(("basic", "silver", "gold")),
        },
        "shipping": {
            "street": f"{chance.randint(1, 300)} Harbour Road",
            "city": chance.choice(("Lisbon", "Oslo", "Nairobi", "Osaka")),
            "postcode": f"{chance.randint(10_000, 99_999)}",
            "express": chance.random() < 0.3,
        },
        "items": [
            {
                "sku": f"SKU-{chance.getrandbits(32):08x}",
                "quantity": chance.randint(1, 9),
                "price": round(chance.uniform(1, 500), 2),
                "note": chance.choice(("", "gift wrap", "fragile", "leave at the door")),
            }
            for _ in range(item_count)
        ],
        "currency": chance.choice(("EUR", "USD", "JPY")),
        "channel": chance.choice(("web", "app", "store")),
    }
