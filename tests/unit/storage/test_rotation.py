"""Whether a refusal of credentials may pass."""

import pytest

from batchwright.storage.rotation import ROTATION_SECONDS, Rotation

ACCEPTED, REFUSED = "accepted", "refused"


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def last_word(*answers: tuple[float, str], seconds: float = 180.0) -> bool:
    """What the last of the answers, each at its second, means; it is a refusal."""
    clock, passing = Clock(), False
    rotation = Rotation(seconds, clock)
    for clock.seconds, kind in answers:
        if kind == ACCEPTED:
            rotation.accepted()
        else:
            passing = rotation.refused()
    return passing


@pytest.mark.parametrize(
    ("answers", "may_pass"),
    [
        pytest.param([(0, REFUSED)], False, id="never accepted"),
        pytest.param([(0, REFUSED), (5, REFUSED)], False, id="never accepted, asked again"),
        pytest.param([(0, ACCEPTED), (9000, REFUSED)], True, id="accepted before, however long ago"),
        pytest.param([(0, ACCEPTED), (10, REFUSED), (189, REFUSED)], True, id="refused for less than its time"),
        pytest.param([(0, ACCEPTED), (10, REFUSED), (190, REFUSED)], False, id="refused for its time"),
        pytest.param([(0, ACCEPTED), (10, REFUSED), (500, REFUSED)], False, id="refused for longer"),
        pytest.param(
            [(0, ACCEPTED), (10, REFUSED), (100, ACCEPTED), (200, REFUSED)], True, id="accepted in the meantime"
        ),
        pytest.param(
            [(0, ACCEPTED), (10, REFUSED), (300, REFUSED), (400, ACCEPTED), (401, REFUSED)], True, id="rotated twice"
        ),
    ],
)
def test_a_refusal_may_pass_for_a_time_where_the_credentials_worked_before(
    answers: list[tuple[float, str]], may_pass: bool
) -> None:
    assert last_word(*answers) is may_pass


def test_without_time_each_refusal_is_the_last_word() -> None:
    assert not last_word((0, ACCEPTED), (1, REFUSED), seconds=0)


def test_the_time_covers_the_kubelets_period_and_its_cache() -> None:
    assert ROTATION_SECONDS >= 1.5 * 60 + 60


def test_a_pause_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rotation = Rotation()
    rotation.accepted()
    assert caplog.records == []
    for _ in range(3):
        rotation.refused()
    for _ in range(2):
        rotation.accepted()
    refused, accepted = (record.getMessage() for record in caplog.records)
    assert "refuses credentials" in refused
    assert "wait up to 180 s" in refused
    assert "accepts the credentials again" in accepted
