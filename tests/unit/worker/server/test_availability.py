"""Whether the server is there, as tables of events over time. The clock is a number."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.api.conditions import Reason
from batchwright.worker.server.availability import Availability, Cause, Failure, Health, Step, WatchTimes
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Kind

TIMES = WatchTimes()


@dataclass
class Server:
    """Availability over time; each event comes `after` seconds after the one before it."""

    now: float = 100.0
    availability: Availability = field(default_factory=lambda: Availability(TIMES, chance=lambda: 1.0))

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def answered(self, took: float = 0.05) -> None:
        self.now += took
        self.availability.answered(self.now, self.now - took)

    def failed(
        self,
        kind: Kind,
        line: str = "a",
        *,
        took: float = 0.05,
        clean: bool = True,
        heard: bool = True,
        after: float | None = None,
    ) -> Failure:
        self.now += took
        failure = Failure(kind, line, f"{kind.name}.", self.now - took, clean, heard, after)
        self.availability.failed(self.now, failure)
        return failure

    def probed(self, health: Health, took: float = 0.01) -> bool:
        self.now += took
        return self.availability.probed(self.now, health, began=self.now - took, cause="the probe failed")

    def charges(
        self,
        failure: Failure,
        *,
        pause: float = 0.5,
        ended: float | None = None,
        untried: bool = False,
        health: Health = Health.ALIVE,
    ) -> bool:
        """What is settled after the pause, once nothing is in flight any more, and after the probes that it takes."""
        ended = self.now if ended is None else ended
        self.now += pause
        self.availability.has_untried = lambda: untried
        for _ in range(3):
            settled = self.availability.settles(self.now, failure, ended=ended, oldest=math.inf)
            if settled is not None:
                return settled
            assert self.availability.next_at(self.now, 0) < float("inf")
            self.wait(max(self.availability.next_at(self.now, 0) - self.now, 0.0))
            assert self.step(in_flight=0) is Step.PROBE
            self.probed(health)
        raise AssertionError("two probes settle it")

    def is_open_question(self, failure: Failure, *, ended: float, oldest: float) -> bool:
        return self.availability.settles(self.now, failure, ended=ended, oldest=oldest) is None

    @property
    def cause(self) -> Cause | None:
        return self.availability.away.cause if self.availability.away else None

    @property
    def is_open(self) -> bool:
        return self.availability.is_open(self.now)

    def step(self, in_flight: int = 1) -> Step | None:
        return self.availability.step(self.now, in_flight)

    def gone(self) -> "Server":
        """Two probes have failed."""
        self.failed(Kind.UNAVAILABLE)
        self.probed(Health.GONE)
        self.wait(1.0)
        self.probed(Health.GONE)
        assert self.cause is Cause.PROBE
        return self

    def erring(self) -> "Server":
        """Two lines have failed, and no other was answered."""
        self.failed(Kind.CHARGED, "a")
        failure = self.failed(Kind.CHARGED, "b")
        assert not self.charges(failure)
        assert self.cause is Cause.ERRORS
        return self


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


class TestErrors:
    """The probe is fine, and every request fails."""

    def test_two_clean_lines_without_an_answer_to_any(self) -> None:
        server = Server()
        first, second = server.failed(Kind.CHARGED, "a"), server.failed(Kind.CHARGED, "b")
        assert not server.charges(second)
        assert not server.charges(first)
        assert server.cause is Cause.ERRORS
        assert not server.is_open

    def test_a_line_alone_is_charged(self) -> None:
        server = Server()
        for charged in range(4):
            assert server.charges(server.failed(Kind.CHARGED, "a", clean=charged == 0))
        assert server.cause is None

    def test_with_lines_that_were_charged_before_too(self) -> None:
        server = Server()
        server.failed(Kind.CHARGED, "old", clean=False)
        server.failed(Kind.CHARGED, "older", clean=False)
        assert server.charges(server.failed(Kind.CHARGED, "a"))

    def test_others_that_are_answered_afterwards_show_whose_fault_it_is(self) -> None:
        server = Server()
        first, second = server.failed(Kind.CHARGED, "a"), server.failed(Kind.CHARGED, "b")
        ended = server.now
        server.answered()
        assert server.charges(first, ended=ended, untried=True)
        assert server.charges(second, ended=ended, untried=True)

    def test_however_late_that_is(self) -> None:
        server = Server()
        server.answered()
        began = server.now
        failures = [server.failed(Kind.CHARGED, f"line-{number}") for number in range(40)]
        ended = server.now
        for _ in range(60):
            server.wait(10.0)
            assert all(server.is_open_question(failure, ended=ended, oldest=began) for failure in failures)
        server.answered(took=601.0)
        assert all(server.charges(failure, ended=ended, untried=True) for failure in failures)
        assert server.cause is None

    @pytest.mark.parametrize("untried", [False, True])
    def test_what_was_sent_later_is_waited_for_where_others_have_yet_to_be_tried(self, untried: bool) -> None:
        server = Server()
        failure = server.failed(Kind.CHARGED, "a")
        ended = server.now
        server.wait(1.0)
        server.probed(Health.ALIVE)
        server.availability.has_untried = lambda: untried
        assert server.is_open_question(failure, ended=ended, oldest=ended + 0.5) is untried

    def test_it_is_not_settled_before_a_probe_that_began_after_it(self) -> None:
        server = Server()
        server.probed(Health.ALIVE)
        failure = server.failed(Kind.CHARGED)
        ended = server.now
        assert server.is_open_question(failure, ended=ended, oldest=math.inf)
        server.wait(1.0)
        assert server.step(in_flight=0) is Step.PROBE
        server.probed(Health.ALIVE)
        assert server.charges(failure, ended=ended)

    @pytest.mark.parametrize("health", [Health.GONE, Health.ERRING, Health.LATE])
    def test_a_probe_that_fails_makes_it_an_outage(self, health: Health) -> None:
        server = Server()
        server.probed(Health.ALIVE)
        assert not server.charges(server.failed(Kind.CHARGED), health=health)
        assert server.cause is Cause.PROBE

    def test_what_an_outage_that_has_ended_took_is_not_charged(self) -> None:
        server = Server()
        before = server.failed(Kind.CHARGED, "before")
        ended = server.now
        server.gone()
        during = server.failed(Kind.CHARGED, "during")
        server.wait(5.0)
        server.probed(Health.ALIVE)
        server.wait(60.0)
        server.answered()
        assert not server.charges(before, ended=ended)
        assert not server.charges(during, ended=ended)

    def test_a_line_that_has_its_outcome_is_no_longer_one_that_fails(self) -> None:
        server = Server()
        server.failed(Kind.CHARGED, "a")
        server.availability.forget("a")
        assert server.charges(server.failed(Kind.CHARGED, "b"), untried=True)

    def test_of_a_server_that_breaks_down_some_were_just_answered(self) -> None:
        server = Server()
        server.answered()
        first, second = server.failed(Kind.CHARGED, "a"), server.failed(Kind.CHARGED, "b")
        server.availability.answered(first.began + 0.01, 0.0)
        first, second = server.failed(Kind.CHARGED, "a"), server.failed(Kind.CHARGED, "b")
        assert not server.charges(first, untried=True)
        assert not server.charges(second, untried=True)

    def test_lines_with_charges_don_t_hide_it_while_others_have_yet_to_be_tried(self) -> None:
        server = Server()
        server.failed(Kind.CHARGED, "a", clean=False)
        assert not server.charges(server.failed(Kind.CHARGED, "b", clean=False), untried=True)
        assert server.cause is Cause.ERRORS

    def test_nor_do_they_when_they_are_many(self) -> None:
        server = Server()
        for number in range(15):
            assert server.charges(server.failed(Kind.CHARGED, f"line-{number}", clean=False), pause=0.1)
        assert not server.charges(server.failed(Kind.CHARGED, "another", clean=False))

    def test_a_few_bad_lines_that_are_left_of_a_job_are_charged_to_their_end(self) -> None:
        server = Server()
        tries = {"a": 0, "b": 0, "c": 0}
        for round_ in range(4):
            began = server.now
            if round_ == 0:
                server.answered(took=0.04)
            failures = [Failure(Kind.CHARGED, line, "", began, clean=round_ == 0) for line in tries]
            server.wait(0.01)
            for failure in failures:
                server.availability.failed(server.now, failure)
            ended = server.now
            server.wait(0.2)
            for failure in failures:
                assert server.charges(failure, ended=ended, pause=0.0)

    @pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.BROKEN_OFF])
    def test_tries_that_find_it_unavailable_though_a_probe_finds_it_alive(self, kind: Kind) -> None:
        server = Server()
        server.failed(kind)
        server.probed(Health.ALIVE)
        server.failed(kind)
        server.failed(kind)
        assert server.cause is None, "old connections break too"
        server.failed(kind)
        assert server.cause is Cause.ERRORS

    def test_one_line_at_a_time_tries_whether_it_is_over(self) -> None:
        server = Server().erring()
        pauses = []
        for _ in range(7):
            at = server.availability.next_at(server.now, 0)
            assert not server.availability.wants_trial(at - 0.001)
            pauses.append(round(at - server.now, 3))
            server.wait(at - server.now)
            assert server.availability.wants_trial(server.now)
            server.availability.trial_began()
            assert not server.availability.wants_trial(server.now), "one at a time"
            server.failed(Kind.CHARGED, "c", took=0.0)
            server.availability.trial_ended(server.now)
        assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        server.answered()
        assert server.is_open

    def test_an_answer_to_what_was_in_flight_ends_it_too(self) -> None:
        server = Server().erring()
        server.answered(took=60.0)
        assert server.is_open

    def test_a_server_that_asks_for_patience_is_there(self) -> None:
        server = Server().erring()
        server.failed(Kind.PACED)
        assert server.is_open

    def test_a_probe_that_is_fine_does_not_end_it(self) -> None:
        server = Server().erring()
        server.probed(Health.ALIVE)
        assert server.cause is Cause.ERRORS

    def test_probes_that_fail_make_it_gone_since_then(self) -> None:
        server = Server().erring()
        server.wait(10.0)
        server.gone()
        assert server.availability.away is not None
        assert server.availability.away.since == server.now

    def test_a_trial_that_is_due_and_that_nobody_takes_is_nothing_to_wake_up_for(self) -> None:
        server = Server().erring()
        server.wait(5.0)
        assert server.availability.wants_trial(server.now)
        server.availability.has_untried = lambda: True
        assert server.availability.next_at(server.now, 0) == float("inf")


class TestPatience:
    """Two lines are left, and both fail for ever, on a server whose probe is fine."""

    def waited(self, seconds: float, *, untried: bool = False) -> Server:
        server = Server().erring()
        server.availability.has_untried = lambda: untried
        server.wait(seconds)
        return server

    def test_after_two_minutes_and_a_probe_that_is_fine_it_opens_and_they_are_charged(self) -> None:
        server = self.waited(110.0)
        assert server.step(in_flight=0) is None
        at = server.availability.next_at(server.now, 0)
        assert at - server.now < 11.0
        server.wait(10.0)
        assert server.step(in_flight=0) is Step.PROBE
        server.probed(Health.ALIVE)
        assert server.is_open
        for line in ("a", "b", "a", "b"):
            assert server.charges(server.failed(Kind.CHARGED, line))

    def test_what_failed_before_is_not(self) -> None:
        server = self.waited(120.0)
        failure = Failure(Kind.CHARGED, "a", "", server.now - 60.0)
        server.probed(Health.ALIVE)
        server.availability.failed(server.now, failure)
        assert not server.charges(failure)

    def test_it_ends_with_the_next_answer(self) -> None:
        server = self.waited(120.0)
        server.probed(Health.ALIVE)
        server.answered()
        server.wait(10.0)
        server.failed(Kind.CHARGED, "a")
        assert not server.charges(server.failed(Kind.CHARGED, "b"))

    @pytest.mark.parametrize("health", [Health.GONE, Health.ERRING])
    def test_not_while_the_probe_fails(self, health: Health) -> None:
        server = Server()
        server.probed(Health.ALIVE)
        server.erring()
        server.wait(120.0)
        server.probed(health)
        server.wait(1.0)
        server.probed(health)
        assert server.cause is Cause.PROBE

    def test_never_while_there_are_others_to_try(self) -> None:
        server = self.waited(36_000.0, untried=True)
        server.probed(Health.ALIVE)
        assert not server.is_open
        assert server.step(in_flight=0) is None
        assert not server.charges(server.failed(Kind.CHARGED, "c"), untried=True)

    def test_not_where_the_server_is_unavailable_for_every_line(self) -> None:
        server = Server()
        server.failed(Kind.UNAVAILABLE)
        server.probed(Health.ALIVE)
        for _ in range(3):
            server.failed(Kind.UNAVAILABLE)
        assert server.cause is Cause.ERRORS
        server.wait(3600.0)
        server.probed(Health.ALIVE)
        assert not server.is_open


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


class TestKey:
    def refused(self) -> Server:
        server = Server()
        server.failed(Kind.UNAUTHORIZED)
        assert server.cause is Cause.KEY
        return server

    def test_a_key_that_is_refused_closes(self) -> None:
        server = self.refused()
        assert not server.is_open
        assert server.availability.away is not None
        assert server.availability.away.reason is Reason.SERVER_UNAUTHORIZED

    def test_not_while_others_are_answered(self) -> None:
        server = Server()
        server.answered()
        server.availability.failed(server.now, Failure(Kind.UNAUTHORIZED, "a", "", server.now - 1))
        assert server.is_open

    def test_what_was_let_in_with_the_old_key_does_not_open_it_again(self) -> None:
        server = self.refused()
        server.wait(60.0)
        server.availability.answered(server.now, server.now - 61.0)
        assert not server.is_open
        server.answered(took=0.01)
        assert server.is_open

    def test_another_key_is_tried_at_once(self) -> None:
        server = self.refused()
        assert not server.availability.wants_trial(server.now)
        server.availability.key_changed(server.now)
        assert server.availability.wants_trial(server.now)

    def test_a_key_that_is_refused_for_the_models(self) -> None:
        server = Server()
        server.availability.models_asked(server.now, Listing.REFUSED, cause="401")
        assert server.cause is Cause.KEY

    def test_the_models_of_a_line_that_is_forbidden_close_nothing_while_others_are_answered(self) -> None:
        server = Server()
        failure = server.failed(Kind.FORBIDDEN)
        server.availability.answered(server.now, failure.began)
        server.availability.models_asked(server.now, Listing.REFUSED, cause="403")
        assert server.is_open


class TestModel:
    def vanished(self) -> Server:
        server = Server()
        server.availability.models_asked(server.now, Listing.UNLISTED, cause="no longer served")
        assert server.cause is Cause.MODEL
        return server

    def test_it_is_asked_for_until_it_is_listed(self) -> None:
        server = self.vanished()
        assert not server.is_open
        assert server.step(in_flight=0) is None
        server.wait(0.5)
        assert server.step(in_flight=0) is Step.ASK_MODELS
        server.availability.models_asked(server.now, Listing.LISTED)
        assert server.is_open

    def test_a_server_that_does_not_answer_it_is_probed(self) -> None:
        server = self.vanished()
        server.availability.models_asked(server.now, Listing.UNREACHABLE)
        assert server.cause is Cause.MODEL
        assert server.step() is Step.PROBE

    @pytest.mark.parametrize("listing", [Listing.LISTED, Listing.NO_LIST])
    def test_a_server_that_has_it_is_there(self, listing: Listing) -> None:
        server = Server()
        server.availability.models_asked(server.now, listing)
        assert server.is_open


class TestPacing:
    def test_all_wait_as_long_as_the_server_asks_for(self) -> None:
        server = Server()
        server.failed(Kind.PACED, after=20.0)
        assert not server.is_open
        assert server.availability.next_at(server.now, 0) == server.now + 20.0
        server.wait(20.0)
        assert server.is_open

    def test_not_where_others_are_answered_meanwhile(self) -> None:
        server = Server()
        server.answered()
        server.availability.failed(server.now, Failure(Kind.PACED, "a", "", server.now - 1, after=20.0))
        assert server.is_open

    def test_nor_longer_than_until_one_is(self) -> None:
        server = Server()
        server.failed(Kind.PACED, after=20.0)
        server.answered(took=1.0)
        assert server.is_open

    def test_a_server_that_says_nothing_of_time_is_not_waited_for(self) -> None:
        server = Server()
        server.failed(Kind.PACED)
        assert server.is_open

    def test_nothing_else_for_a_minute_is_an_outage_since_its_beginning(self) -> None:
        server = Server()
        server.failed(Kind.PACED)
        began = server.now
        server.wait(58.0)
        server.failed(Kind.PACED)
        assert server.is_open
        server.wait(2.0)
        server.failed(Kind.PACED, after=20.0)
        away = server.availability.away
        assert away is not None
        assert (away.reason, away.since) == (Reason.SERVER_AWAY, began)
        assert away.message == "PACED. It asks for patience, and answers nothing else."
        server.wait(19.0)
        assert not server.availability.wants_trial(server.now), "a trial waits as long as the server asks for"
        assert server.availability.next_at(server.now, 0) == pytest.approx(server.now + 1.0)
        server.wait(1.0)
        assert server.availability.wants_trial(server.now)
        server.answered()
        assert server.is_open

    def test_an_answer_in_that_minute_begins_another(self) -> None:
        server = Server()
        server.failed(Kind.PACED)
        server.wait(50.0)
        server.answered()
        server.wait(50.0)
        server.failed(Kind.PACED)
        assert server.is_open


EVENTS = st.one_of(
    st.tuples(st.just("answered"), st.floats(0.001, 100)),
    st.tuples(st.just("failed"), st.sampled_from(Kind), st.sampled_from("abcd"), st.booleans()),
    st.tuples(st.just("probed"), st.sampled_from(Health)),
    st.tuples(st.just("models"), st.sampled_from(Listing)),
    st.tuples(st.just("trial")),
    st.tuples(st.just("wait"), st.floats(0.001, 60)),
)


class TestLaws:
    """Over random histories."""

    def after(self, history: list[tuple[object, ...]]) -> Server:
        server = Server()
        for event in history:
            self.happen(server, event)
        return server

    def happen(self, server: Server, event: tuple[object, ...]) -> None:
        match event:
            case ("answered", float(took)):
                server.answered(took)
            case ("failed", Kind() as kind, str(line), bool(clean)):
                server.failed(kind, line, clean=clean, after=3.0)
            case ("probed", Health() as health):
                server.probed(health)
            case ("models", Listing() as listing):
                server.availability.models_asked(server.now, listing)
            case ("trial",):
                if server.availability.wants_trial(server.now):
                    server.availability.trial_began()
                    server.wait(0.05)
                    server.availability.trial_ended(server.now)
            case ("wait", float(seconds)):
                server.wait(seconds)

    @given(st.lists(EVENTS, max_size=30))
    def test_right_after_a_success_that_was_sent_last_it_is_never_away(self, history: list[tuple[object, ...]]) -> None:
        server = self.after(history)
        server.wait(0.001)
        server.answered(took=0.0005)
        assert server.is_open

    @given(st.lists(EVENTS, max_size=30))
    def test_it_comes_back_by_itself_once_everything_works(self, history: list[tuple[object, ...]]) -> None:
        server = self.after(history)
        availability = server.availability
        for _ in range(20):
            match server.step(in_flight=0):
                case Step.PROBE:
                    server.probed(Health.ALIVE)
                case Step.ASK_MODELS:
                    availability.models_asked(server.now, Listing.LISTED)
                case None if availability.wants_trial(server.now):
                    availability.trial_began()
                    server.answered()
                    availability.trial_ended(server.now)
                case None if not server.is_open:
                    at = availability.next_at(server.now, 0)
                    assert server.now < at < float("inf"), "there is always something to wait for"
                    server.wait(at - server.now)
        assert server.is_open

    @given(st.lists(st.tuples(st.integers(0, 9), st.floats(0.01, 20), st.booleans()), min_size=2, max_size=40))
    def test_while_nothing_succeeds_and_others_are_untried_no_line_but_the_first_is_ever_charged(
        self, failures: list[tuple[int, float, bool]]
    ) -> None:
        server = Server()
        first = failures[0][0]
        for line, took, clean in failures:
            failure = server.failed(Kind.CHARGED, str(line), took=took, clean=clean)
            charged = server.charges(failure, pause=0.1, untried=True)
            if line != first:
                assert not charged

    @given(st.lists(EVENTS, max_size=30))
    def test_a_line_is_charged_when_another_one_is_answered_after_it(self, history: list[tuple[object, ...]]) -> None:
        server = self.after(history)
        failure = server.failed(Kind.CHARGED, "mine")
        ended = server.now
        changed = server.availability.away is not None
        server.answered(took=0.01)
        settled = server.availability.settles(server.now, failure, ended=ended, oldest=0.0)
        assert settled is not changed, "but for an outage"
