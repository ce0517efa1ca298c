"""The fault laboratory as a command.

    make chaos ARGS="--seed 7 --faults 30 --minutes 10"
    make chaos ARGS="--seed 7 --changeovers 20"
    python -m sparkmirror.lab.chaos --seed 7 --faults 30 --minutes 10

The exit code is 0 when nothing was lost, repeated or reordered, the offset map is right at every record, every fault
could be made and undone, and the mirror caught up and stopped cleanly. Otherwise all logs are kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from sparkmirror.lab.chaos import report
from sparkmirror.lab.chaos.changing import change_over, markdown, write
from sparkmirror.lab.chaos.disk import with_own_mounts
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.run import Wanted, run
from sparkmirror.lab.chaos.schedule import Kind

RESULTS = Path("artifacts") / "chaos"


def main() -> int:
    """Makes one run and reports it."""
    given = _arguments()
    if given.changeovers:
        return _change_over(given)
    mounts = with_own_mounts("sparkmirror.lab.chaos", sys.argv[1:])
    console = Console(highlight=False, soft_wrap=True)
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-chaos-"))
    wanted = Wanted(
        seed=given.seed,
        faults=given.faults,
        seconds=given.minutes * 60,
        kinds=tuple(Kind[name.upper()] for name in given.only) or tuple(Kind),
        spark=given.spark,
        naming=Naming(given.naming),
        catch_up_s=given.catch_up,
    )
    console.print(f"seed {given.seed}; everything is under {directory}")
    done = run(wanted, directory, console.print, mounts=mounts)
    name = f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-seed-{given.seed}"
    data, text = report.write(done, given.results, name)
    console.print(report.markdown(done), markup=False)
    console.print(f"{text}\n{data}")
    if done.clean:
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    console.print(f"NOT as promised. Once more: {done.command}\nAll logs, and the schedule in {data}: {directory}")
    return 1


def _change_over(given: argparse.Namespace) -> int:
    """Makes one run of changing over and reports it."""
    console = Console(highlight=False, soft_wrap=True)
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-changeovers-"))
    console.print(f"seed {given.seed}; everything is under {directory}")
    done = change_over(given.seed, given.changeovers, Naming(given.naming), directory, console.print)
    name = f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-changeovers-seed-{given.seed}"
    data, text = write(done, given.results, name)
    console.print(markdown(done), markup=False)
    console.print(f"{text}\n{data}")
    if done.clean:
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    console.print(f"NOT as promised. Once more: {done.command}\nAll logs: {directory}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name.lower() for kind in Kind]
    parser.add_argument("--seed", type=int, default=1, help="everything follows from it (%(default)s)")
    parser.add_argument("--faults", type=int, default=30, help="how many (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="within which they begin (%(default)s)")
    parser.add_argument("--only", action="append", default=[], choices=names, help="this kind; may be repeated")
    parser.add_argument("--spark", action="store_true", help="on a standalone Spark cluster with two workers")
    parser.add_argument("--catch-up", type=float, default=300.0, help="seconds for it at the end (%(default)s)")
    parser.add_argument(
        "--changeovers",
        type=int,
        default=0,
        help="instead: so many rounds over to the other cluster and back",
    )
    parser.add_argument("--naming", choices=[*Naming], default=Naming.RENAMED, help="of copies (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the reports go (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
