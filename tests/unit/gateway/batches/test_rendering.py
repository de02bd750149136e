"""What OpenAI's clients see of a BatchJob: state names, times, counts, errors; every key, always."""

import json
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Batch as OfficialBatch

from batchwright.api import names
from batchwright.api.conditions import TERMINAL_PHASES, Phase, Reason
from batchwright.gateway.batches import schema
from batchwright.gateway.batches.answer import BatchJSON
from batchwright.gateway.batches.rendering import (
    batch_of,
    deleted_state,
    ended_at,
    listed_errors,
    seconds,
    state_of,
    unpublished,
)
from batchwright.gateway.records.batch_record import TERMINAL, BatchError, BatchState, Ending, Status
from fixtures.batch_records import BATCH_ID, CREATED, FILE_ID, at, batchjob, record

START = int(CREATED.timestamp())
TIME_FIELDS = [name for name in schema.Batch.model_fields if name.endswith("_at")]


def rendered(phase: str | None, reason: str = "", *, of: Any = None, **status: Any) -> dict[str, Any]:
    """The batch object while its BatchJob says this."""
    of = of or record()
    return batch_of(of, state_of(of, batchjob(of, phase, reason, **status)))


class TestStates:
    @pytest.mark.parametrize(
        ("phase", "shown", "shown_when_cancelled"),
        [
            (None, "validating", "cancelling"),
            ("pending", "validating", "cancelling"),
            ("validating", "validating", "cancelling"),
            ("in_progress", "in_progress", "cancelling"),
            ("finalizing", "finalizing", "cancelling"),
            ("cancelling", "cancelling", "cancelling"),
            ("completed", "completed", "completed"),
            ("failed", "failed", "failed"),
            ("expired", "expired", "expired"),
            ("cancelled", "cancelled", "cancelled"),
        ],
    )
    def test_each_phase_has_one_of_openais_names(
        self, phase: str | None, shown: str, shown_when_cancelled: str
    ) -> None:
        assert rendered(phase)["status"] == shown
        assert rendered(phase, of=record(cancelling_at=CREATED))["status"] == shown_when_cancelled

    def test_a_cancel_by_kubectl_shows_before_the_operator_has_seen_it(self) -> None:
        of = record()
        job = batchjob(of, "in_progress")
        job["spec"]["cancel"] = True

        assert state_of(of, job).status == "cancelling"

    def test_a_status_that_nobody_can_read_says_nothing(self) -> None:
        of = record()

        assert state_of(of, batchjob(of) | {"status": {"phase": 7, "requestCounts": "many"}}) == state_of(of, {})

    @pytest.mark.parametrize("phase", sorted(TERMINAL_PHASES))
    def test_before_its_files_are_there_an_ended_batch_is_not_shown_as_one(self, phase: str) -> None:
        of = record()
        state = unpublished(state_of(of, batchjob(of, phase, finalizingAt=None)))
        shown = batch_of(of, state)

        assert state.status == ("cancelling" if phase == "cancelled" else "finalizing")
        assert [shown[f"{end}_at"] for end in TERMINAL] == [None] * 4
        assert shown["errors"] is None


class TestTimes:
    @pytest.mark.parametrize(
        ("phase", "status", "reached"),
        [
            ("validating", {"validatingAt": at(1)}, {}),
            ("in_progress", {"inProgressAt": at(5)}, {"in_progress_at": 5}),
            (
                "finalizing",
                {"inProgressAt": at(5), "finalizingAt": at(9)},
                {"in_progress_at": 5, "finalizing_at": 9},
            ),
            (
                "completed",
                {"inProgressAt": at(5), "finalizingAt": at(9), "completedAt": at(12)},
                {"in_progress_at": 5, "finalizing_at": 9, "completed_at": 12},
            ),
            ("failed", {"failedAt": at(3)}, {"failed_at": 3}),
            (
                "expired",
                {"inProgressAt": at(5), "finalizingAt": at(9), "expiredAt": at(12)},
                {"in_progress_at": 5, "finalizing_at": 9, "expired_at": 12},
            ),
            ("cancelling", {"cancellingAt": at(7)}, {"cancelling_at": 7}),
            (
                "cancelled",
                {"inProgressAt": at(5), "cancellingAt": at(7), "cancelledAt": at(8)},
                {"in_progress_at": 5, "cancelling_at": 7, "cancelled_at": 8},
            ),
        ],
    )
    def test_a_time_is_null_until_its_state_is_reached(
        self, phase: str, status: dict[str, Any], reached: dict[str, int]
    ) -> None:
        shown = rendered(phase, **status)

        expected = dict.fromkeys(TIME_FIELDS) | {"created_at": 0, "expires_at": 86_400} | reached
        assert {name: shown[name] for name in TIME_FIELDS} == {
            name: None if value is None else START + value for name, value in expected.items()
        }

    def test_the_cancel_that_was_asked_for_here_has_the_time_at_which_it_was(self) -> None:
        of = record(cancelling_at=CREATED + timedelta(seconds=3))

        assert rendered("cancelling", of=of, cancellingAt=at(9))["cancelling_at"] == START + 3

    @pytest.mark.parametrize("text", ["yesterday", "", "2026-03-01T12:00:03"])
    def test_an_annotation_that_is_no_time_hurts_nothing(self, text: str) -> None:
        of = record()
        job = batchjob(of, "cancelling", cancellingAt=at(9))
        job["metadata"]["annotations"]["batchwright.dev/cancelling-at"] = text

        assert batch_of(of, state_of(of, job))["cancelling_at"] in (START + 3, START + 9)

    def test_clocks_that_differ_dont_let_a_batch_begin_before_its_creation(self) -> None:
        shown = rendered("completed", inProgressAt=at(-30), finalizingAt=at(-20), completedAt=at(-10))

        assert [shown[name] for name in ("in_progress_at", "finalizing_at", "completed_at")] == [START] * 3


class TestCounts:
    @pytest.mark.parametrize(
        ("counts", "codes", "shown"),
        [
            (None, None, (0, 0, 0)),
            ({"total": 10}, None, (10, 0, 0)),
            ({"total": 10, "completed": 7, "failed": 3}, {"400": 2, "request_timeout": 1}, (10, 7, 3)),
            ({"total": 10, "completed": 4, "failed": 6}, {"batch_cancelled": 5, "400": 1}, (10, 4, 1)),
            ({"total": 10, "completed": 4, "failed": 6}, {"batch_expired": 6}, (10, 4, 0)),
            ({"total": 10, "completed": 4, "failed": 6}, {"batch_failed": 4, "500": 2}, (10, 4, 2)),
            # Of more codes than a status has room for, these keep their place.
            ({"total": 90, "failed": 81}, {f"code-{n}": 4 for n in range(20)} | {"batch_cancelled": 1}, (90, 0, 80)),
        ],
    )
    def test_lines_that_never_ran_are_not_counted_as_failed(
        self, counts: dict[str, int] | None, codes: dict[str, int] | None, shown: tuple[int, int, int]
    ) -> None:
        found = rendered("cancelled", requestCounts=counts, errorCodes=codes)["request_counts"]

        assert (found["total"], found["completed"], found["failed"]) == shown

    def test_tokens_that_nobody_reported_are_zero_in_an_object_that_is_always_there(self) -> None:
        assert rendered(None)["usage"] == {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        }

    def test_tokens_are_those_of_the_status(self) -> None:
        usage = {"inputTokens": 10, "cachedTokens": 4, "outputTokens": 5, "reasoningTokens": 2, "totalTokens": 15}

        assert rendered("in_progress", usage=usage)["usage"] == {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 15,
        }

    def test_the_run_took_what_its_metrics_say(self) -> None:
        of = record()
        state = state_of(of, batchjob(of, "completed", metrics={"responseTimeSeconds": "12.5"}))

        assert state.response_time == 12.5

    @pytest.mark.parametrize("written", ["", "soon", "nan", "inf", "-inf", "1e999"])
    def test_what_is_no_number_of_seconds_is_none(self, written: str) -> None:
        of = record()
        state = state_of(of, batchjob(of, "completed", metrics={"responseTimeSeconds": written}))

        assert state.response_time is None


class TestErrors:
    def test_a_bad_input_lists_its_errors_with_their_lines(self) -> None:
        errors = [
            {"code": "invalid_json_line", "line": 2, "message": "This line is not parseable as valid JSON."},
            {"code": "invalid_url", "line": 3, "param": "url", "message": "no"},
        ]

        assert rendered("failed", "InvalidInput", validationErrors=errors, validationErrorCount=2)["errors"] == {
            "object": "list",
            "data": [
                {
                    "code": "invalid_json_line",
                    "message": "This line is not parseable as valid JSON.",
                    "param": None,
                    "line": 2,
                },
                {"code": "invalid_url", "message": "no", "param": "url", "line": 3},
            ],
        }

    def test_of_more_errors_than_are_listed_the_last_entry_has_the_count(self) -> None:
        errors = listed_errors([BatchError("invalid_json_line", "no", None, line) for line in range(1, 151)], 150)

        assert [error.line for error in errors[:100]] == list(range(1, 101))
        assert errors[100:] == (
            BatchError("more_errors", "The input file has 150 errors in all; the first 100 are listed."),
        )

    def test_a_missing_input_is_named_by_its_file_id(self) -> None:
        found = rendered("failed", "InputNotFound", message="s3://bucket/secret-prefix/x doesn't exist.")["errors"]

        assert found["data"] == [
            {"code": "invalid_request", "message": f"Cannot find file {FILE_ID}.", "param": "file_id", "line": None}
        ]

    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ("TooManyFailures", "too_many_failures"),
            ("StorageAccessDenied", "storage_access_denied"),
            ("ModelNotFound", "model_not_found"),
            ("RunFailed", "run_failed"),
        ],
    )
    def test_a_batch_that_failed_later_has_its_one_reason_without_a_line(self, reason: str, code: str) -> None:
        found = rendered("failed", reason, message="This is why.")["errors"]

        assert found["data"] == [{"code": code, "message": "This is why.", "param": None, "line": None}]

    @pytest.mark.parametrize("phase", ["completed", "cancelled", "expired", "in_progress"])
    def test_nothing_else_has_errors(self, phase: str) -> None:
        assert rendered(phase)["errors"] is None

    def test_a_batch_whose_batchjob_was_deleted_says_so(self) -> None:
        of = record()
        shown = batch_of(of, deleted_state(of, CREATED + timedelta(seconds=50)))

        assert (shown["status"], shown["failed_at"]) == ("failed", START + 50)
        assert [error["code"] for error in shown["errors"]["data"]] == ["batchjob_deleted"]

    def test_one_that_was_being_cancelled_is_cancelled_then(self) -> None:
        of = record(cancelling_at=CREATED + timedelta(seconds=40))
        shown = batch_of(of, deleted_state(of, CREATED + timedelta(seconds=50)))

        assert (shown["status"], shown["cancelling_at"], shown["cancelled_at"]) == ("cancelled", START + 40, START + 50)
        assert shown["errors"] is None


class TestFiles:
    def test_files_are_null_until_the_end_is_stored(self) -> None:
        of = record()
        state = state_of(of, batchjob(of, "completed"))

        assert batch_of(of, state)["output_file_id"] is None

        ended = record(ending=Ending(state, output_file_id="file-1", error_file_id=None))
        assert batch_of(ended, state)["output_file_id"] == "file-1"
        assert batch_of(ended, state)["error_file_id"] is None

    def test_while_it_is_shown_as_validating_an_ending_shows_nothing(self) -> None:
        ended = record(ending=Ending(BatchState("failed"), output_file_id="file-1"))

        assert batch_of(ended, BatchState("validating"))["output_file_id"] is None


MOMENTS = st.none() | st.integers(-100_000, 100_000).map(at)
COUNT = st.integers(0, 20)
STEPS = ["validating", "inProgress", "finalizing", "completed", "failed", "cancelling", "cancelled", "expired"]
STATUSES = st.fixed_dictionaries(
    {
        "phase": st.none() | st.sampled_from([phase.value for phase in Phase]),
        "message": st.none() | st.text(max_size=20),
        "requestCounts": st.none() | st.fixed_dictionaries({"total": COUNT, "completed": COUNT, "failed": COUNT}),
        "errorCodes": st.none()
        | st.dictionaries(st.sampled_from(["400", "batch_cancelled", "batch_expired", "batch_failed", "other"]), COUNT),
        "model": st.none() | st.text(max_size=20),
        **{f"{step}At": MOMENTS for step in STEPS},
    }
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """A record and its BatchJob, in whatever states they are."""
    cancelling = draw(st.none() | st.integers(0, 50_000).map(lambda late: CREATED + timedelta(seconds=late)))
    metadata = draw(st.none() | st.dictionaries(st.sampled_from(["id", "status", "team"]), st.text(max_size=20)))
    of = record(cancelling_at=cancelling, metadata=metadata)
    status = {name: value for name, value in draw(STATUSES).items() if value is not None}
    reason = draw(st.sampled_from([reason.value for reason in Reason]))
    phase = status.pop("phase", None)
    return of, batchjob(of, phase, reason, **status)


def test_a_moment_that_a_tenant_made_up_can_still_be_counted_from() -> None:
    """Whoever may patch a BatchJob may write any time into its annotation."""
    of = record()
    job = batchjob(of, "cancelled", Reason.CANCELLED.value)
    job["metadata"]["annotations"] = {names.ANNOTATION_CANCELLING_AT: "9999-12-31T23:59:59Z"}
    end = ended_at(state_of(of, job))

    assert end is not None
    assert end + timedelta(days=30) > end


class TestLaws:
    @given(batches())
    def test_only_openais_states_with_their_times(self, batch: tuple[Any, dict[str, Any]]) -> None:
        of, job = batch
        state = state_of(of, job)
        shown = batch_of(of, state)

        assert shown["status"] in get_args(Status)
        assert (ended_at(state) is not None) == state.ended
        for end in TERMINAL:
            assert (shown[f"{end}_at"] is not None) == (shown["status"] == end)

    @given(batches())
    def test_times_never_go_back(self, batch: tuple[Any, dict[str, Any]]) -> None:
        of, job = batch
        for state in (state_of(of, job), unpublished(state_of(of, job))):
            shown = batch_of(of, state)
            end = seconds(ended_at(state))
            run = [shown["created_at"], shown["in_progress_at"], shown["finalizing_at"], end]
            stop = [shown["created_at"], shown["cancelling_at"], end]
            for course in (run, stop):
                reached = [moment for moment in course if moment is not None]
                assert reached == sorted(reached)

    @given(batches())
    def test_completed_and_failed_are_no_more_than_all(self, batch: tuple[Any, dict[str, Any]]) -> None:
        of, job = batch
        counts = batch_of(of, state_of(of, job))["request_counts"]

        assert min(counts.values()) >= 0
        assert counts["completed"] + counts["failed"] <= counts["total"]

    @given(batches())
    def test_the_sdk_and_the_schema_read_all_of_it(self, batch: tuple[Any, dict[str, Any]]) -> None:
        of, job = batch
        shown = batch_of(of, state_of(of, job))
        text = BatchJSON(shown).body

        assert schema.Batch.model_validate_json(text, strict=True).model_dump() == json.loads(text) == shown
        assert OfficialBatch.model_validate(shown).id == BATCH_ID
