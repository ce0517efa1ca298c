"""Which files of an index count, and what is written of them."""

from __future__ import annotations

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.package_hashes import HEAD, counts, lines, pins


@pytest.mark.parametrize(
    ("file", "version", "expected"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", "2.4.6", True),
        ("numpy-2.4.6-cp313-cp313-manylinux_2_28_aarch64.whl", "2.4.6", True),
        ("numpy-2.4.6-cp313-cp313-macosx_11_0_arm64.whl", "2.4.6", True),
        ("numpy-2.4.6-cp313-cp313t-manylinux_2_28_aarch64.whl", "2.4.6", False),
        ("numpy-2.4.6-cp314-cp314-manylinux_2_28_x86_64.whl", "2.4.6", False),
        ("numpy-2.4.6-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", "2.4.6", False),
        ("numpy-2.4.60-cp311-cp311-manylinux_2_28_x86_64.whl", "2.4.6", False),
        ("numpy-2.4.6.tar.gz", "2.4.6", True),
        ("numpy-2.4.6rc1.tar.gz", "2.4.6", False),
        ("numpy-2.4.6.zip", "2.4.6", False),
        ("numpy-2.4.6-1-cp39-abi3-manylinux_2_28_x86_64.whl", "2.4.6", True),
        ("numpy-2.4.6-py2.py3-none-any.whl", "2.4.6", True),
    ],
)
def test_a_file_counts_that_pip_may_take_for_the_pinned_version(file: str, version: str, expected: bool):
    assert counts(file, "numpy", version) == expected


def test_names_are_compared_as_indexes_do():
    assert counts("pytest_xdist-3.8.0.tar.gz", "pytest-xdist", "3.8.0")
    assert not counts("pytest-3.8.0.tar.gz", "pytest-xdist", "3.8.0")


def test_each_package_has_a_line_with_the_hashes_of_its_files():
    pinned = pins("# what is tested\nb==2\na.c==1.0\n")
    assert pinned == {"b": "2", "a.c": "1.0"}
    files = {
        "b": {"b-2.tar.gz": "22", "b-2-py3-none-any.whl": "11", "b-3.tar.gz": "33"},
        "a.c": {"a_c-1.0.tar.gz": "44"},
    }
    assert lines(pinned, files) == f"{HEAD}b==2 --hash=sha256:11 --hash=sha256:22\na.c==1.0 --hash=sha256:44\n"
    with pytest.raises(LabError, match="no file of b 2"):
        lines({"b": "2"}, {"b": {}})
