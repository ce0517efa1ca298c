"""Damaged batches through every kernel, for as many rounds as asked: ``python -m tests.batches.fuzz ROUNDS [SEED]``.

The damage is sealed with a right checksum, so that it reaches the kernels behind the index. With
``NUMBA_BOUNDSCHECK=1`` in the environment each access outside an array ends the run with an IndexError; without it only
the machine's memory protection does. Prints how many batches went through and how many were refused.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from sparkmirror.batches import (
    Codec,
    Run,
    Stamp,
    TargetTopic,
    index,
    keep,
    merge,
    needs,
    producers,
    rewrite,
    stretches,
    unknown_producers,
    warm,
)
from sparkmirror.errors import BatchError
from tests.batches.building import Rec, Written, sealed

STAMP = Stamp(producer_id=1, epoch=0, sequence=0)
SPECIAL = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)


def seeds() -> list[list[bytes]]:
    """Answers of up to four sound batches of every kind."""
    rng = random.Random(1)
    made = []
    for codec in Codec:
        for bits in (0, 8, 16, 32, 48, 64, 80):
            batches, offset = [], 0
            for size in (1, 4, 2, 1):
                records = tuple(
                    Rec(
                        i * rng.choice([1, 1, 2]),
                        rng.choice([5, 1 << 40]),
                        b"\0\0\0\0",
                        b"v" * i,
                        (("h", None),) * (i % 3),
                    )
                    for i in range(size)
                )
                batch = Written(records=records, base_offset=offset, codec=codec, bits=bits, producer=(7, 0, 0))
                batches.append(batch.encode())
                offset = batch.last_offset + 1 + rng.randint(0, 2)
            made.append(batches)
    return made


def damaged(batches: list[bytes], rng: random.Random) -> bytes:
    """The answer with some bytes of some batches changed, and often with checksums that fit."""
    out = b""
    for batch in batches[rng.randint(0, 3) :]:
        data = bytearray(batch)
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            at = rng.choice([rng.randrange(12, len(data)), rng.randrange(57, min(len(data), 80))])
            data[at] = rng.choice([*SPECIAL, rng.randrange(256)])
        if rng.random() < 0.1:
            data = data[: rng.randrange(61, len(data) + 1)]
        data[16] = batch[16] if rng.random() < 0.98 else data[16]
        out += sealed(bytes(data)) if rng.random() < 0.95 else bytes(data)
    return out[: rng.randrange(len(out) + 1)] if rng.random() < 0.05 else out


def once(data: bytes, rng: random.Random, seen: Counter[str]) -> None:
    """Every kernel on one answer."""
    found = index(data)
    seen["batches"] += len(found)
    seen["answers cut short by a fault"] += found.error is not None
    unknown_producers(found, producers({7}))
    try:
        kept = keep(found, start_offset=rng.randint(0, 6), aborted=[(7, 0)] if rng.random() < 0.3 else None)
    except BatchError:
        seen["refused by keep"] += 1
        return
    limit = rng.choice([80, 150, 1 << 20])
    codec = rng.choice([None, None, Codec.NONE, Codec.LZ4])
    target = TargetTopic(log_append_time=rng.random() < 0.3, max_message_bytes=limit, codec=codec)
    codes = needs(found, kept, target)
    stretches(found, kept, codes, small=100, small_compressed=90)
    place, column = 0, 0
    while place == 0 and column < len(found):
        try:
            run = Run(indexed=found, kept=kept, first=column, stop=len(found))
            merging = merge(
                [run], target, STAMP, batch_size=rng.choice([100, 200, 1 << 20]), decompression_limit=1 << 20
            )
        except BatchError:
            seen["refused by merge"] += 1
            break
        for merged in merging.batches:
            assert index(merged.batch).error is None
            seen["records"] += merged.count
        place, column = merging.run, merging.column
    if len(found):
        start, size = int(found.start[-1]), int(found.size[-1])
        rewrite(bytearray(data), start, size, producer_id=1, epoch=1, sequence=1) if found.magic[-1] == 2 else None


def fuzz(rounds: int, seed: int) -> Counter[str]:
    """Runs the rounds and counts what happened."""
    rng, seen, sources = random.Random(seed), Counter[str](), seeds()
    for _ in range(rounds):
        once(damaged(rng.choice(sources), rng), rng, seen)
    return seen


if __name__ == "__main__":
    warm()
    rounds, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.stdout.write(f"{rounds} answers from seed {seed}: {dict(fuzz(rounds, seed))}\n")
