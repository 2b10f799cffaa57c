"""What came out of an attempt, in one word."""

import pytest

from kopf_core.actions.errors import AwaitingError, PermanentError, RejectionError
from kopf_core.actions.outcomes import Outcome


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(final=True), "success"),
        (Outcome(final=True, exception=PermanentError("no")), "failure"),
        (Outcome(final=True, exception=RejectionError("no")), "rejection"),
        (Outcome(final=False, exception=ValueError("not yet")), "retry"),
        (Outcome(final=False, exception=AwaitingError("not yet"), is_attempt=False), "waiting"),
    ],
)
def test_k31_waiting_and_rejections_are_not_counted_as_failures(outcome, verdict):
    assert outcome.verdict == verdict
