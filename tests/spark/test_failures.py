"""What is told of a Spark job that failed."""

from __future__ import annotations

from sparkmirror.spark.failures import reason_of

DIED = """An error occurred while calling o98.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:56)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (192.0.2.7 executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting \
'spark.python.worker.faulthandler.enabled' config
\tat org.apache.spark.api.python.BasePythonRunner.anonfun(PythonRunner.scala:700)
Caused by: java.io.EOFException
\t... 24 more
"""
RAISED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "lane.py", line 9, in copy
    raise LinkError()
sparkmirror.errors.LinkError: cluster b at 127.0.0.1:1: no answer
"""
CANCELLED = """An error occurred while calling o98.getResult.
: org.apache.spark.SparkException: Job 3 cancelled part of cancelled job group run a->b
"""


def test_a_worker_that_died_is_told_in_one_line():
    assert reason_of(RuntimeError(DIED)) == "Python worker exited unexpectedly (crashed)."


def test_what_a_worker_raised_is_told_without_its_traceback():
    assert reason_of(RuntimeError(RAISED)) == "LinkError: cluster b at 127.0.0.1:1: no answer"


def test_a_job_that_was_cancelled_says_so():
    assert reason_of(RuntimeError(CANCELLED)) == "Job 3 cancelled part of cancelled job group run a->b"


def test_anything_else_is_told_by_its_first_line():
    assert reason_of(RuntimeError("boom\nand more")) == "RuntimeError: boom"
    assert reason_of(KeyError()) == "KeyError: KeyError"


def test_what_java_threw_is_told_where_no_task_and_no_worker_says_more():
    text = "An error occurred while calling None.x.\n: java.io.IOException: no such place\n\tat org.x.Y(Z.java:1)\n"
    assert reason_of(RuntimeError(text)) == "no such place"
