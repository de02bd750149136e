"""Whether a line is to blame that fails, or the server."""

import math

import pytest

from batchwright.worker.server.findings import Cause, Failure, Health, Step
from batchwright.worker.server.verdicts import Kind
from unit.worker.server.server_as_told import Server


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
        server.untried = untried
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
        server.untried = True
        assert server.availability.next_at(server.now, 0) == float("inf")


class TestPatience:
    """Two lines are left, and both fail for ever, on a server whose probe is fine."""

    def waited(self, seconds: float, *, untried: bool = False) -> Server:
        server = Server().erring()
        server.untried = untried
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
