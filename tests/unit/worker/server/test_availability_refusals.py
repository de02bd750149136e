"""A server that refuses the key, the model, or so many requests."""

import pytest

from batchwright.api.conditions import Reason
from batchwright.worker.server.findings import Cause, Failure, Step
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Kind
from unit.worker.server.server_as_told import Server


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
