"""What a pod tells the operator: what goes first where the budget of a termination message is short."""

import pytest

from batchwright.api import reports, status
from batchwright.api.conditions import Reason
from batchwright.api.reports import decode_report, encode_report


def failure(*, message: str = "The input has errors.", errors: int = 0, text: str = "wrong") -> reports.FailureReport:
    return reports.FailureReport(
        reason=Reason.INVALID_INPUT,
        message=message,
        validation_error_count=errors,
        validation_errors_uri="s3://bucket/out/job/validation-errors.jsonl",
        validation_errors=tuple(
            status.ValidationError(code="invalid_json_line", line=n + 1, message=text) for n in range(errors)
        ),
    )


def through(report: reports.Report) -> reports.Report:
    decoded = decode_report(encode_report(report))
    assert decoded is not None
    return decoded


def test_errors_are_cut_from_their_end_and_their_count_stays() -> None:
    decoded = through(failure(errors=100))
    assert isinstance(decoded, reports.FailureReport)
    assert 10 < len(decoded.validation_errors) < 100
    assert [error.line for error in decoded.validation_errors] == [n + 1 for n in range(len(decoded.validation_errors))]
    assert decoded.validation_error_count == 100


def test_long_texts_of_errors_are_cut_before_errors_are_left_out() -> None:
    decoded = through(failure(errors=10, text="x" * 1000))
    assert isinstance(decoded, reports.FailureReport)
    assert len(decoded.validation_errors) == 10
    assert all(error.message.endswith("x…") for error in decoded.validation_errors)


@pytest.mark.parametrize("char", ["x", "漢", "😀", "\x01"])
def test_a_long_message_keeps_as_much_as_fits(char: str) -> None:
    text = encode_report(failure(message=char * 2048))
    size = len(text.encode())
    decoded = decode_report(text)
    assert isinstance(decoded, reports.FailureReport)
    fits_whole = decoded.message == char * 2048
    assert fits_whole or 4096 - 8 <= size <= 4096


def test_the_first_error_and_the_start_of_the_message_stay_to_the_end() -> None:
    decoded = through(failure(message="漢" * 2048, errors=100, text="字" * 1024))
    assert isinstance(decoded, reports.FailureReport)
    assert decoded.message.startswith("漢" * 150)
    assert decoded.validation_errors[0].message.startswith("字" * 150)


def test_uris_go_last_since_they_follow_from_the_spec() -> None:
    published = status.PublishedObject(uri="s3://bucket/" + "k" * 2000, bytes=7, lines=3)
    report = reports.MergeReport(
        request_counts=status.RequestCounts(total=3, completed=3),
        usage=status.Usage(),
        output=published,
        errors=published,
        retry=published,
        warnings=("a segment could not be deleted",),
    )
    decoded = through(report)
    assert isinstance(decoded, reports.MergeReport)
    assert decoded.warnings == ()
    assert decoded.output == status.PublishedObject(uri="", bytes=7, lines=3)
    assert decoded.request_counts.completed == 3


def test_ranges_of_shards_are_cut_at_a_comma() -> None:
    decoded = through(reports.ShardsMissingReport(count=5000, shards=",".join(str(n) for n in range(0, 10_000, 2))))
    assert isinstance(decoded, reports.ShardsMissingReport)
    *numbers, rest = decoded.shards.split(",")
    assert rest == "…"
    assert numbers == [str(n) for n in range(0, 2 * len(numbers), 2)]
    assert len(numbers) > 700


def test_a_budget_below_the_counts_is_an_error() -> None:
    with pytest.raises(ValueError, match="progress report doesn't fit into 10 bytes"):
        encode_report(reports.Progress(index=0, run=1), budget=10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):",
        "{}",
        "[]",
        "null",
        '{"kind":"plan"}',
        '{"kind":"unheard-of"}',
        "{" * 9999,
    ],
)
def test_what_is_no_report_is_none(text: str) -> None:
    assert decode_report(text) is None


def test_fields_of_a_newer_version_are_dropped() -> None:
    report = decode_report('{"kind":"progress","version":1,"index":2,"run":1,"completed":5,"invented":true}')
    assert report == reports.Progress(index=2, run=1, completed=5)


def test_another_version_of_the_report_is_none() -> None:
    assert decode_report('{"kind":"progress","version":2,"index":2,"run":1}') is None
