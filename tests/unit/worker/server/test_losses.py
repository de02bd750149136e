"""What is made of connections that break at one time."""

import pytest

from batchwright.worker.server.losses import Loss, company


@pytest.mark.parametrize(
    ("in_flight", "tries", "total", "of_one"),
    [
        (1, 1, False, True),
        (2, 1, False, False),
        (2, 2, True, False),
        (16, 1, False, False),
        (16, 7, False, False),
        (16, 8, True, False),  # others are dropped by the watch, or end in another way
        (16, 16, True, False),
    ],
)
def test_whether_the_server_broke_or_one_connection(in_flight: int, tries: int, total: bool, of_one: bool) -> None:
    loss = Loss(0.0, in_flight, tries)
    assert (loss.is_total, loss.is_of_one) == (total, of_one)


@pytest.mark.parametrize(("losses", "allowed"), [(0, 16), (1, 8), (2, 4), (3, 2), (4, 1), (9, 1)])
def test_a_suspect_has_half_the_company_after_each_loss(losses: int, allowed: int) -> None:
    assert company(16, losses) == allowed
