"""What the cache of compiled kernels promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sparkmirror.batches
from sparkmirror.batches import fill_cache
from sparkmirror.batches.kernels import compiling
from sparkmirror.batches.kernels import index as index_kernel
from sparkmirror.batches.kernels import pour as pour_kernel
from sparkmirror.batches.kernels import select as select_kernel

SOURCES = Path(sparkmirror.batches.__file__).parent


WALK: Any = index_kernel.walk
KERNELS: tuple[Any, ...] = (WALK, select_kernel.drop, pour_kernel.pour_batches)


def test_a_kernel_is_as_new_as_its_callees_in_other_files(tmp_path: Path) -> None:
    """Numba itself looks at the file of the kernel only; what is stamped here covers the room."""
    copied = Path(shutil.copytree(SOURCES, tmp_path / "batches", ignore=shutil.ignore_patterns("__pycache__")))
    stamped = WALK._cache._cache_file._source_stamp
    assert stamped == compiling.stamp(SOURCES) == compiling.stamp(copied)
    (copied / "kernels" / "varint.py").write_text("# changed")
    assert compiling.stamp(copied) != stamped


def test_each_kernel_has_one_form_for_all_kinds_of_buffers() -> None:
    for buffer in (b"", bytearray(), memoryview(b""), memoryview(bytearray())):
        sparkmirror.batches.index(buffer)
    assert [len(each.signatures) for each in KERNELS] == [1] * len(KERNELS)


LOADING = """
import sparkmirror.batches
from sparkmirror.batches.kernels import compiling
sparkmirror.batches.warm()
stats = [dispatcher.stats for dispatcher, _ in compiling._entries]
print(sum(sum(one.cache_hits.values()) for one in stats), sum(sum(one.cache_misses.values()) for one in stats))
"""


def test_kernels_that_are_compiled_are_loaded_and_not_compiled_again() -> None:
    sparkmirror.batches.warm()
    done = subprocess.run(
        [sys.executable, "-c", LOADING], env=os.environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(len(compiling._entries)), "0"]


@pytest.mark.slow
def test_the_cache_is_filled_by_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    fill_cache()
    assert len(list(tmp_path.rglob("*.nbc"))) == len(compiling._entries)
