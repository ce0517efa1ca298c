"""Damaged batches through every kernel, compared with plain Python: see docs/batches.md.

    python -m tests.batches.fuzz run EXECUTIONS [--seed N]        until the kernels have run that often
    python -m tests.batches.fuzz collect EXECUTIONS [--seed N]    the same, then stores the cases worth keeping
    python -m tests.batches.fuzz replay                           the stored cases, and what is different now

With ``NUMBA_BOUNDSCHECK=1`` in the environment each access outside an array is an IndexError; without it only the
machine's memory protection notices. Kernels compiled one way take the other's place in Numba's cache: give such a run a
``NUMBA_CACHE_DIR`` of its own.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from numba.core import config

from sparkmirror.batches.kernels import words
from tests.batches.building import compiled
from tests.batches.fuzzing import corpus
from tests.batches.fuzzing.case import Case, Setting
from tests.batches.fuzzing.corpus import Known
from tests.batches.fuzzing.loop import DefectError, Figures, Fuzz, cases_of, limit_memory
from tests.batches.fuzzing.seeds import seeds, transactions
from tests.batches.fuzzing.trial import Trial


@compiled
def _outside(data: np.ndarray) -> int:
    return words.byte_at(data, data.shape[0])


def bounds_are_checked() -> bool:
    """Whether an access outside an array is seen; tried, not believed."""
    try:
        _outside(np.zeros(3, np.uint8))
    except IndexError:
        return True
    return False


def known_cases() -> list[Known]:
    """What a run starts from: sound answers of every kind, and the stored cases."""
    aborting = Setting(aborted=((7, 0), (8, 0)))
    ended: list[Known] = [(Case(data=data, setting=aborting), ()) for data in transactions()]
    return cases_of(seeds()) + ended + corpus.load()


def replay() -> list[str]:
    """The stored cases whose facts are not those on record."""
    changed = []
    for number, (case, facts) in enumerate(corpus.load(), start=1):
        now = Trial(case).run()
        if now != facts:
            changed.append(f"line {number}: was {'; '.join(facts)}\n        is {'; '.join(now)}")
    return changed


def report(figures: Figures, seconds: float) -> str:
    """The figures of a run in words."""
    refused = [(fact, count) for fact, count in figures.facts.most_common() if "Error: " in fact]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    made = f"{figures.answers} answers, {figures.batches} batches, {figures.records} records compared in new batches"
    lines = [
        f"{figures.executions.total()} kernel executions, {made}",
        f"{seconds:.0f} s, slowest answer {figures.slowest * 1000:.0f} ms of CPU, peak memory {memory} MiB",
        *(f"{count:>10} {name}" for name, count in figures.executions.most_common()),
        "refusals:",
        *(f"{count:>10} {fact}" for fact, count in refused),
    ]
    return "\n".join(lines) + "\n"


def _run(executions: int, seed: int) -> Fuzz:
    fuzz, began = Fuzz(seed=seed, pool=known_cases()), time.monotonic()
    sys.stdout.write(f"seed {seed}, bounds are {'' if bounds_are_checked() else 'not '}checked\n")
    sys.stdout.flush()
    try:
        fuzz.run(1)  # everything is loaded now, and what comes is held against that
        limit_memory()
        figures = fuzz.run(executions)
    except DefectError as defect:
        sys.exit(f"after {fuzz.figures.answers} answers: {defect}")
    sys.stdout.write(report(figures, time.monotonic() - began))
    return fuzz


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.batches.fuzz")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("run", "collect"):
        verb = verbs.add_parser(name)
        verb.add_argument("executions", type=int)
        verb.add_argument("--seed", type=int, default=0)
    verbs.add_parser("replay")
    asked = parser.parse_args(arguments)
    if bool(config.BOUNDSCHECK) != bounds_are_checked():
        sys.exit("NUMBA_BOUNDSCHECK is set, and an access outside an array was not seen")
    if asked.verb == "replay":
        changed = replay()
        sys.exit("\n".join(changed) if changed else 0)
    fuzz = _run(asked.executions, asked.seed)
    if asked.verb == "collect":
        corpus.store(corpus.chosen(fuzz.pool))


if __name__ == "__main__":
    main(sys.argv[1:])
