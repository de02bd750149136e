"""What holds of the server's state whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from batchwright.worker.server.findings import Health, Step
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Kind
from unit.worker.server.server_as_told import Server

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
