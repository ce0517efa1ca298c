"""Every code, for the oldest batch and those behind it, guarded or not."""

from __future__ import annotations

import pytest

from sparkmirror.copy.retries import Retry, decide
from sparkmirror.kafka.codes import DECIDED, Advice, advice, may_be_appended

REFUSALS = sorted(DECIDED - {0})
LATER_RELEASE = 999


@pytest.mark.parametrize("oldest", [True, False], ids=["oldest", "behind"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("code", [*REFUSALS, LATER_RELEASE])
def test_every_code_has_a_decision(code: int, guarded: bool, oldest: bool):
    found = decide(code, oldest=oldest, guarded=guarded)
    if not guarded and may_be_appended(code):
        assert found is Retry.GIVE_BACK
    elif advice(code) in (Advice.RETRY, Advice.REFRESH):
        assert found is Retry.RESEND
    elif not oldest:
        assert found is Retry.WAIT
    else:
        assert found is (Retry.GIVE_BACK if advice(code) is Advice.GIVE_BACK else Retry.GIVE_UP)


@pytest.mark.parametrize(
    ("code", "guarded_oldest", "guarded_behind", "unguarded_oldest", "unguarded_behind"),
    [
        (6, Retry.RESEND, Retry.RESEND, Retry.GIVE_BACK, Retry.GIVE_BACK),
        (7, Retry.RESEND, Retry.RESEND, Retry.GIVE_BACK, Retry.GIVE_BACK),
        (10, Retry.GIVE_UP, Retry.WAIT, Retry.GIVE_UP, Retry.WAIT),
        (13, Retry.RESEND, Retry.RESEND, Retry.GIVE_BACK, Retry.GIVE_BACK),
        (19, Retry.RESEND, Retry.RESEND, Retry.RESEND, Retry.RESEND),
        (20, Retry.RESEND, Retry.RESEND, Retry.GIVE_BACK, Retry.GIVE_BACK),
        (45, Retry.GIVE_BACK, Retry.WAIT, Retry.GIVE_BACK, Retry.WAIT),
        (46, Retry.GIVE_BACK, Retry.WAIT, Retry.GIVE_BACK, Retry.GIVE_BACK),
        (47, Retry.GIVE_BACK, Retry.WAIT, Retry.GIVE_BACK, Retry.WAIT),
        (59, Retry.GIVE_BACK, Retry.WAIT, Retry.GIVE_BACK, Retry.WAIT),
        (89, Retry.RESEND, Retry.RESEND, Retry.RESEND, Retry.RESEND),
        (90, Retry.GIVE_BACK, Retry.WAIT, Retry.GIVE_BACK, Retry.WAIT),
        (-1, Retry.GIVE_UP, Retry.WAIT, Retry.GIVE_BACK, Retry.GIVE_BACK),
    ],
)
def test_the_codes_that_targets_give(
    code: int, guarded_oldest: Retry, guarded_behind: Retry, unguarded_oldest: Retry, unguarded_behind: Retry
):
    assert decide(code, oldest=True, guarded=True) is guarded_oldest
    assert decide(code, oldest=False, guarded=True) is guarded_behind
    assert decide(code, oldest=True, guarded=False) is unguarded_oldest
    assert decide(code, oldest=False, guarded=False) is unguarded_behind


def test_an_acknowledged_batch_is_never_decided_on():
    with pytest.raises(ValueError, match="acknowledged"):
        decide(0, oldest=True, guarded=True)
