"""When the server is probed, and what a probe shows."""

import pytest

from batchwright.api.conditions import Reason
from batchwright.worker.server.findings import Cause, Failure, Health, Step
from batchwright.worker.server.verdicts import Kind
from unit.worker.server.server_as_told import Server


class TestProbes:
    def test_a_healthy_server_is_not_probed_but_for_once(self) -> None:
        server = Server()
        server.answered()
        server.probed(Health.ALIVE)
        server.answered()
        assert server.step() is None

    @pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.BROKEN_OFF])
    def test_one_follows_at_once_where_a_try_finds_it_away(self, kind: Kind) -> None:
        server = Server()
        server.failed(kind)
        assert server.step() is Step.PROBE

    def test_none_follows_where_others_were_answered_meanwhile(self) -> None:
        server = Server()
        server.probed(Health.ALIVE)
        server.answered()
        server.availability.failed(server.now, Failure(Kind.UNAVAILABLE, "a", "", server.now - 1))
        assert server.step() is None

    @pytest.mark.parametrize("kind", [Kind.PACED, Kind.CHARGED, Kind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.MODEL_MISSING])
    def test_none_follows_an_answer_of_another_kind(self, kind: Kind) -> None:
        server = Server()
        server.availability.sent(server.now)
        server.failed(kind)
        assert server.step() is None

    def test_one_follows_silence_with_requests_in_flight(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        server.wait(4.9)
        assert server.step() is None
        server.wait(0.2)
        assert server.step() is Step.PROBE
        assert server.step(in_flight=0) is None

    def test_silence_is_probed_again_and_again(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        server.wait(5.0)
        server.probed(Health.ALIVE)
        assert server.step() is None
        server.wait(5.0)
        assert server.step() is Step.PROBE

    def test_the_watch_can_sleep_until_then(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        assert server.availability.next_at(server.now, 1) == server.now + 5.0
        assert server.availability.next_at(server.now, 0) == float("inf")


class TestGone:
    def test_one_failing_probe_is_followed_by_another_a_second_later(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        assert not server.probed(Health.GONE)
        assert server.cause is None
        assert server.step() is None
        server.wait(1.0)
        assert server.step() is Step.PROBE

    def test_two_mean_that_it_is_away_and_what_is_in_flight_is_dropped(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        server.probed(Health.GONE)
        server.wait(1.0)
        assert server.probed(Health.GONE)
        away = server.availability.away
        assert away is not None
        assert (away.cause, away.reason, away.message) == (Cause.PROBE, Reason.SERVER_AWAY, "the probe failed")
        assert not server.is_open
        assert not server.availability.wants_trial(server.now)

    def test_an_answer_between_them_begins_anew(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        server.probed(Health.GONE)
        server.answered()
        assert not server.probed(Health.GONE)
        assert server.cause is None

    def test_an_answer_during_one_knows_better(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        server.probed(Health.GONE)
        server.answered()
        began = server.now - 0.01
        for _ in range(3):
            assert not server.availability.probed(server.now, Health.GONE, began=began)
        assert server.cause is None

    def test_late_answers_drop_nothing_before_three_in_a_row(self) -> None:
        server = Server()
        assert [server.probed(Health.LATE, took=5.0) for _ in range(4)] == [False, False, True, True]
        assert server.cause is Cause.PROBE

    def test_it_is_looked_at_again_with_growing_pauses(self) -> None:
        server = Server().gone()
        pauses = []
        for _ in range(7):
            at = server.availability.next_at(server.now, 0)
            pauses.append(round(at - server.now, 3))
            server.wait(at - server.now)
            assert server.step(in_flight=0) is Step.PROBE
            server.probed(Health.GONE, took=0.0)
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]

    @pytest.mark.parametrize("event", ["probe", "answer"])
    def test_a_sign_of_life_ends_it(self, event: str) -> None:
        server = Server().gone()
        if event == "probe":
            server.probed(Health.ALIVE)
        else:
            server.answered(took=30.0)
        assert server.cause is None
        assert server.is_open


class TestHealthThatErrs:
    """/health answers 5xx: a server that is broken, or a gateway that doesn't know the path."""

    def test_where_it_never_was_better_it_tells_nothing(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        for _ in range(5):
            server.wait(5.0)
            assert not server.probed(Health.ERRING)
        assert server.is_open

    def test_requests_that_fail_too_make_it_an_outage_with_trials(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        assert not server.probed(Health.ERRING)
        for _ in range(3):
            server.failed(Kind.UNAVAILABLE)
        assert server.cause is Cause.ERRORS

    def test_it_is_compared_once_with_requests_that_are_answered(self) -> None:
        server = Server()
        server.answered()
        assert server.step() is Step.PROBE
        server.probed(Health.ALIVE)
        server.answered()
        assert server.step() is None

    def test_where_it_was_better_two_mean_an_outage_with_polls_and_trials(self) -> None:
        server = Server()
        server.probed(Health.ALIVE)
        server.wait(1.0)
        server.probed(Health.ERRING)
        server.wait(1.0)
        assert server.probed(Health.ERRING), "what is in flight is dropped"
        assert server.cause is Cause.PROBE
        assert not server.availability.wants_trial(server.now)
        server.wait(1.0)
        assert server.availability.wants_trial(server.now)
        assert server.step() is Step.PROBE

    def test_a_trial_that_is_answered_shows_that_it_tells_nothing(self) -> None:
        server = Server()
        for health in (Health.ALIVE, Health.ERRING, Health.ERRING):
            server.probed(health)
        server.wait(1.0)
        server.answered()
        assert server.is_open
        for _ in range(3):
            server.wait(5.0)
            assert not server.probed(Health.ERRING)
        assert server.is_open
