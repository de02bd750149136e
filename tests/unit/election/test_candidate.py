"""The rules of one candidate for the Lease."""

from dataclasses import replace

import pytest

from batchwright.election.candidate import Candidate, Step, Timing
from batchwright.election.lease import Lease

TIMING = Timing(duration=15, renew_deadline=10, retry_period=2)
NEW = Candidate("me", TIMING)
OTHERS = Lease("other", 15, transitions=3, acquired_at="then", version="1")
MINE = Lease("me", 15, transitions=3, acquired_at="then", version="1")
LEADER = NEW.saw(None, 0).won(MINE, sent_at=100, at=101)


class TestTiming:
    @pytest.mark.parametrize(
        ("timing", "problem"),
        [
            (Timing(), None),
            (Timing(5, 4, 2), None),
            (Timing(4, 2, 1), "duration"),
            (Timing(301, 10, 2), "duration"),
            (Timing(15.5, 10, 2), "whole seconds"),
            (Timing(15, 12.1, 2), "renew deadline"),
            (Timing(15, 10, 5.1), "retry period"),
        ],
    )
    def test_times_that_are_not_safe_are_refused(self, timing: Timing, problem: str | None) -> None:
        found = timing.problem()
        assert (found is None) if problem is None else (problem in (found or ""))


class TestCandidate:
    def test_it_looks_first(self) -> None:
        assert NEW.step(0) is Step.LOOK
        assert not NEW.leads(0)

    @pytest.mark.parametrize("lease", [None, Lease("", 1, version="1"), MINE])
    def test_a_lease_that_nobody_else_holds_is_claimed_at_once(self, lease: Lease | None) -> None:
        assert NEW.saw(lease, 7).step(7) is Step.CLAIM

    def test_a_lease_that_does_not_change_is_claimed_when_its_duration_is_over(self) -> None:
        candidate = NEW.saw(OTHERS, 7)
        assert candidate.step(21.9) is Step.WAIT
        assert candidate.step(22) is Step.CLAIM

    def test_the_duration_that_counts_is_the_one_that_the_holder_wrote(self) -> None:
        candidate = NEW.saw(replace(OTHERS, duration=60), 0)
        assert candidate.step(59) is Step.WAIT
        assert candidate.step(60) is Step.CLAIM

    def test_a_holder_that_wrote_no_duration_is_given_our_own(self) -> None:
        candidate = NEW.saw(replace(OTHERS, duration=0), 0)
        assert candidate.step(14) is Step.WAIT
        assert candidate.step(15) is Step.CLAIM

    def test_every_change_begins_the_count_anew_and_the_same_again_does_not(self) -> None:
        again = NEW.saw(OTHERS, 0).saw(OTHERS, 14)
        assert again.step(15) is Step.CLAIM
        assert again.saw(replace(OTHERS, version="2"), 14).step(15) is Step.WAIT

    def test_each_round_begins_with_a_look(self) -> None:
        assert NEW.saw(OTHERS, 0).next_round().step(1) is Step.LOOK
        assert LEADER.next_round().step(101) is Step.CLAIM

    def test_a_lease_that_was_deleted_under_its_holder_is_left_alone_for_as_long(self) -> None:
        candidate = NEW.saw(OTHERS, 0).saw(None, 5)
        assert candidate.step(14) is Step.WAIT
        assert candidate.step(15) is Step.CLAIM

    def test_what_it_writes(self) -> None:
        assert NEW.saw(None, 0).claim() == Lease("me", 15)
        assert NEW.saw(OTHERS, 0).claim() == Lease("me", 15, transitions=4)
        assert LEADER.claim() == Lease("me", 15, transitions=3, acquired_at="then")
        assert LEADER.release() == Lease("", 1, transitions=3)


class TestLeader:
    def test_it_leads_until_the_deadline_after_the_moment_at_which_it_sent_its_claim(self) -> None:
        assert LEADER.leads(109.9)
        assert not LEADER.leads(110)

    def test_an_answer_that_comes_too_late_makes_no_leader(self) -> None:
        late = NEW.saw(None, 0).won(MINE, sent_at=100, at=110)
        assert late.leads_until is None
        assert not late.leads(100)

    def test_a_renewal_moves_the_deadline(self) -> None:
        assert LEADER.won(MINE, sent_at=108, at=109).leads(117)

    def test_past_the_deadline_it_does_nothing_more(self) -> None:
        assert LEADER.step(110) is Step.WAIT
        assert LEADER.doubted().step(110) is Step.WAIT

    def test_it_leads_no_more_when_somebody_else_holds_the_lease(self) -> None:
        assert not LEADER.doubted().saw(OTHERS, 102).leads(102)

    def test_after_a_renewal_of_unknown_end_it_looks_and_goes_on(self) -> None:
        doubtful = LEADER.doubted()
        assert doubtful.step(103) is Step.LOOK
        known = doubtful.saw(replace(MINE, version="2"), 103)
        assert known.step(103) is Step.CLAIM
        assert known.leads(109)
        assert not known.leads(110)

    def test_it_makes_a_lease_anew_that_was_deleted(self) -> None:
        assert LEADER.doubted().saw(None, 102).step(102) is Step.CLAIM

    def test_resigned_it_leads_no_more(self) -> None:
        assert not LEADER.resigned().leads(101)
