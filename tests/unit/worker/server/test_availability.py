"""Whether the server is there, as tables of events over time. The clock is a number."""

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

    def charges(self, failure: Failure, *, pause: float = 0.5, in_flight: int = 0, untried: bool = False) -> bool:
        ended = self.now
        self.now += pause
        return self.availability.charges(self.now, failure, ended=ended, in_flight=in_flight, untried=untried)

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
    def test_a_healthy_server_is_not_probed(self) -> None:
        server = Server()
        server.answered()
        assert server.step() is None

    @pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.BROKEN_OFF])
    def test_one_follows_at_once_where_a_try_finds_it_away(self, kind: Kind) -> None:
        server = Server()
        server.failed(kind)
        assert server.step() is Step.PROBE

    def test_none_follows_where_others_were_answered_meanwhile(self) -> None:
        server = Server()
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
        assert server.availability.charges(server.now, first, ended=ended, in_flight=0, untried=True)
        assert server.availability.charges(server.now, second, ended=ended, in_flight=0, untried=True)

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
                assert server.availability.charges(server.now, failure, ended=ended, in_flight=0, untried=False)

    def test_the_first_of_many_that_wait_in_silence_is_spared_once(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        failure = server.failed(Kind.CHARGED, took=180.0, heard=False)
        assert not server.charges(failure, in_flight=7)
        assert server.cause is None
        assert server.charges(failure, in_flight=7)

    def test_a_server_that_says_something_is_not_silent(self) -> None:
        server = Server()
        server.availability.sent(server.now)
        server.wait(60.0)
        assert server.charges(server.failed(Kind.CHARGED), in_flight=7)

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

    def test_probes_that_fail_make_it_gone_since_the_same_moment(self) -> None:
        server = Server().erring()
        before = server.availability.away
        server.gone()
        assert before is not None
        assert server.availability.away is not None
        assert server.availability.away.since == before.since

    def test_a_trial_that_is_due_and_that_nobody_takes_is_nothing_to_wake_up_for(self) -> None:
        server = Server().erring()
        server.wait(5.0)
        assert server.availability.wants_trial(server.now)
        assert server.availability.next_at(server.now, 0) == float("inf")

    def test_after_ten_minutes_of_it_lines_are_charged_again(self) -> None:
        server = Server().erring()
        server.wait(590.0)
        assert not server.charges(server.failed(Kind.CHARGED, "c"))
        server.wait(20.0)
        assert server.charges(server.failed(Kind.CHARGED, "c"))
        assert server.availability.is_out_of_patience(server.now)

    def test_no_other_outage_wears_its_patience_out(self) -> None:
        server = Server().gone()
        server.wait(3600.0)
        assert not server.availability.is_out_of_patience(server.now)


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
                assert not charged or server.availability.is_out_of_patience(server.now)

    @given(st.lists(EVENTS, max_size=30))
    def test_a_line_is_charged_when_another_one_is_answered_after_it(self, history: list[tuple[object, ...]]) -> None:
        server = self.after(history)
        failure = server.failed(Kind.CHARGED, "mine")
        ended = server.now
        server.answered(took=0.01)
        assert server.availability.charges(server.now, failure, ended=ended, in_flight=3, untried=True)
