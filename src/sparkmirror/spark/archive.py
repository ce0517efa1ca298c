"""A class-data archive for Spark's JVM: what it loads at every start, parsed and verified once.

Starting Spark is loading 15,000 classes; from an archive that takes half of the CPU time. ``make setup`` makes it, and
``python -m sparkmirror.spark.archive`` does by hand. It lies in the user's cache under a name that tells Java, PySpark
and where both are installed; a session that finds it uses it. Without it everything works, slower.

Reference: JEP 350 (dynamic CDS archives).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import tempfile
from pathlib import Path

from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.spark.java import JavaHome, find_java, spark_jar
from sparkmirror.user_cache import own, user_cache

EXIT_SECONDS = 120.0
"""The JVM writes the archive when it ends."""

_PARTITION = PartitionPlan(
    source=TopicPartition("t", 0),
    target_topic="a.t",
    topic_id="",
    position=0,
    writer=Writer(producer_id=0, epoch=0),
)


def archive_of(java: JavaHome) -> Path:
    """Where the archive for this Java and this PySpark is, if it was made."""
    release = java.home / "release"
    identity = [
        str(java.home),
        release.read_text() if release.is_file() else str(java.version),
        importlib.metadata.version("pyspark"),
        str(spark_jar("spark-core_*.jar")),
    ]
    name = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return user_cache() / "spark-classes" / f"{name}.jsa"


def options(java: JavaHome) -> str:
    """The JVM's options for using the archive; empty without one.

    Raises:
        SparkmirrorError: somebody else may have made it.
    """
    archive = own(archive_of(java))
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive.is_file() else ""


def make() -> Path | None:
    """Makes the archive by running a small job once; takes some ten seconds and 150 MB.

    Returns:
        the archive, or None if this Java cannot make one.
    """
    from sparkmirror.spark.session import close_session, open_session
    from sparkmirror.spark.settings import SparkOptions

    archive = own(archive_of(find_java()))
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        fresh = Path(place, "fresh.jsa")
        making = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:cds=off -Xlog:cds+dynamic=off"
        session = open_session(SparkOptions(), 2, making)
        _use(session)
        close_session(session, EXIT_SECONDS)
        if not fresh.is_file():
            return None
        fresh.replace(archive)
    return archive


def _use(session: object) -> None:
    """Runs a job of the same shape as a shift's, so that the same classes are loaded."""
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from sparkmirror.spark.rows import PLAN, RECEIPT, plan_table, receipt_batch

    def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield receipt_batch(())

    table = plan_table(ShiftPlan(flow="a->b", run="run", shift="lane-0.0", generation=1, partitions=(_PARTITION,)))
    frame = session.createDataFrame(table, schema=from_arrow_schema(PLAN)).coalesce(1)  # type: ignore[attr-defined]  # a SparkSession
    frame.mapInArrow(nothing, from_arrow_schema(RECEIPT)).toArrow()


if __name__ == "__main__":
    made = make()
    if made is None:
        sys.exit("this Java cannot make a class-data archive; Spark starts without")
