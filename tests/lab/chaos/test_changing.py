"""One round over to the other cluster and back; ``make chaos`` makes more, and with the other naming."""

from __future__ import annotations

import pytest

from sparkmirror.lab.chaos.changing import change_over, markdown, write
from sparkmirror.lab.chaos.naming import Naming

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
def test_groups_change_over_and_back_and_nothing_is_lost_or_read_twice(tmp_path):
    said: list[str] = []
    done = change_over(11, 1, Naming.KEPT, tmp_path, said.append)
    assert done.clean, "\n".join([markdown(done), *said])
    assert [each.what.split()[0] for each in done.outcomes].count("failback") == 1
    assert all(each.places >= 20 and each.tally.records > 1_000 for each in done.outcomes)
    data, text = write(done, tmp_path / "reports", "one")
    assert "as promised" in text.read_text()
    assert data.stat().st_size > 10_000
