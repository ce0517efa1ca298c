"""Why a Spark job failed, in the one line that a person needs.

Pure. What PySpark raises carries the driver's and the worker's stack traces, and its first line says only that a Java
method was called.
"""

from __future__ import annotations

import re

_TASK = re.compile(r"most recent failure: .*?: (?:[\w.$]+(?:Exception|Error): )?(?P<reason>.*)")
_RAISED = re.compile(r"^(?:[\w.$]+\.)?(?P<reason>\w+(?:Error|Exception): .*)")
_ADVICE_OF_SPARK = re.compile(r"\s*Consider setting .*")
_THROWN = re.compile(r"^: [\w.$]+(?:Error|Exception): (?P<reason>.*)")
_CANCELLED = re.compile(r"\b(Job \S+ cancelled.*)")


def reason_of(failure: BaseException) -> str:
    """The reason in one line: what ended the task, or what was raised in the worker, else the first line there is."""
    lines = str(failure).splitlines() or [type(failure).__name__]
    for pattern in (_TASK, _CANCELLED):
        for line in lines:
            found = pattern.search(line)
            if found:
                return _ADVICE_OF_SPARK.sub("", found.group(1)).strip()
    raised = [found.group("reason") for line in lines if (found := _RAISED.match(line))]
    thrown = [found.group("reason") for line in lines if (found := _THROWN.match(line))]
    return (*raised[-1:], *thrown, f"{type(failure).__name__}: {lines[0]}")[0]
