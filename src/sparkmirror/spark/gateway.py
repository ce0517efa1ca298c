"""A JVM of its own with any jars, reached through the Py4J that PySpark carries. It has nothing to do with Spark's JVM.

For the lab, which drives Kafka's own Java clients this way: key, headers, null values and transactions of every record
are then in Python's hands, with no Java source and no compiler (many machines have only a runtime).

Invariants: the JVM ends with this process, however it ends (it reads its standard input until the end); it answers
only to who knows the token that it was started with.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from sparkmirror.spark.java import find_java, spark_jar

_SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Compiling well would cost it more than it gains."""

END_SECONDS = 20.0
LINES_KEPT = 50

JavaFailure = Py4JJavaError
"""What a call raises when Java threw: ``java_exception`` is Java's exception."""


class Gateway:
    """A running JVM; a context manager that ends it.

    Args:
        jars: the directory whose jars it can use.
        options: of the JVM.

    Raises:
        JavaError: there is no Java for it.
    """

    def __init__(self, jars: Path, *, options: Sequence[str] = ()) -> None:
        self.output: deque[str] = deque(maxlen=LINES_KEPT)
        port, token, self._process = launch_gateway(
            jarpath=str(spark_jar("py4j-*.jar")),
            classpath=f"{jars}/*",
            javaopts=[*_SHORT_LIFE, *options],
            java_path=str(find_java().executable),
            redirect_stdout=self.output,
            redirect_stderr=self.output,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))

    @property
    def jvm(self) -> Any:
        """Java's packages: ``gateway.jvm.java.util.Properties()``."""
        return self._gateway.jvm

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.shutdown()
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)
