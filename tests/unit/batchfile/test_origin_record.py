"""What stands of finished work when it is done once more."""

import pytest

from batchwright.api.undone import Undone
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.origin_record import all_stand, is_final, standing
from batchwright.batchfile.shard_record import Totals


@pytest.mark.parametrize("code", ["400", "402", "405", "409", "410", "413", "415", "422", "451", "499"])
def test_a_client_error_stands(code: str) -> None:
    assert is_final(code)


@pytest.mark.parametrize("code", ["401", "403", "404", "408", "425", "429"])
def test_one_that_may_pass_does_not(code: str) -> None:
    assert not is_final(code)


FAILURES = [*Undone, "worker_failed", "timeout", "connection_error", "answer_too_large", "other", "unknown"]


@pytest.mark.parametrize("code", [*FAILURES, "300", "500", "503", "", "4e2", "٤٠٠", "-400"])
def test_nothing_else_does(code: str) -> None:
    assert not is_final(code)


USAGE = Usage(total_tokens=7)


def test_successes_and_final_answers_stand() -> None:
    totals = Totals(5, 6, USAGE, {"stop": 5}, {"400": 1, "batch_cancelled": 2, "422": 1, "500": 1, "other": 1})
    assert standing(totals) == Totals(5, 2, USAGE, {"stop": 5}, {"400": 1, "422": 1})
    assert not all_stand(totals)


@pytest.mark.parametrize("codes", [{}, {"400": 3, "413": 1}])
def test_all_stand_where_nothing_is_to_be_sent_again(codes: dict[str, int]) -> None:
    assert all_stand(Totals(5, sum(codes.values()), error_codes=codes))
