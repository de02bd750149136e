"""Laws of the reports: what a pod has to tell fits into its termination message, and no count is lost on the way."""

import string

from hypothesis import example, given
from hypothesis import strategies as st

from batchwright.api import reports, status
from batchwright.api.conditions import Reason
from batchwright.api.names import TERMINATION_MESSAGE_BYTES
from batchwright.api.reports import decode_report, encode_report
from batchwright.api.text import MAX_COUNT_NAMES, fold_counts

counts = st.integers(0, 2**63 - 1)
any_text = st.text(st.characters(exclude_categories=()), max_size=3000)
"""Every character, lone surrogates included: JSON's escapes let them into the lines that messages quote."""


def text(limit: int) -> st.SearchStrategy[str]:
    """Text of up to `limit` characters; often at the limit, and of those that need six bytes in JSON."""
    long = st.sampled_from(["a", "漢", "😀", "\x01", '"']).map(lambda char: char * limit)
    return st.text(max_size=limit) | long


counts_by_name = st.dictionaries(
    st.text(string.ascii_letters, min_size=1, max_size=50) | st.text(), counts, max_size=60
)
usage = st.builds(
    status.Usage,
    input_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    output_tokens=st.none() | counts,
    reasoning_tokens=st.none() | counts,
    total_tokens=st.none() | counts,
)
published = st.none() | st.builds(status.PublishedObject, uri=text(4096), bytes=counts, lines=counts)
validation_error = st.builds(
    status.ValidationError, code=text(64), line=st.none() | st.integers(1, 2**63 - 1), param=text(64), message=any_text
)
progress = st.builds(
    reports.Progress,
    index=counts,
    run=counts,
    completed=counts,
    failed=counts,
    shards_completed=counts,
    shards_failed=counts,
    shards_active=counts,
    usage=usage,
    finish_reasons=counts_by_name,
    server_available=st.booleans(),
    server_message=any_text | text(1024),
)
plan = st.builds(
    reports.PlanReport,
    fingerprint=text(64),
    plan_uri=text(4096),
    lines=counts,
    shards=counts,
    endpoint=st.sampled_from(["/v1/chat/completions", "/v1/embeddings"]),
    model=st.none() | text(512),
    reused=st.none()
    | st.builds(
        status.Reused, completed=counts, failed=counts, shards=counts, usage=usage, finish_reasons=counts_by_name
    ),
)
failure = st.builds(
    reports.FailureReport,
    reason=st.sampled_from(Reason),
    final=st.booleans(),
    validation_error_count=st.none() | counts,
    validation_errors_uri=st.none() | text(4096),
    message=any_text | text(2048),
    validation_errors=st.lists(validation_error, max_size=100).map(tuple),
)
interrupted = st.builds(reports.InterruptedReport, progress=st.none() | progress, message=any_text | text(2048))
merging = st.builds(
    reports.MergeProgress, run=counts, bytes_joined=counts, bytes_total=counts, message=any_text | text(1024)
)
merge = st.builds(
    reports.MergeReport,
    request_counts=st.builds(status.RequestCounts, total=counts, completed=counts, failed=counts),
    usage=usage,
    finish_reasons=counts_by_name,
    error_codes=counts_by_name,
    output=published,
    errors=published,
    retry=published,
    response_time_seconds=st.none() | st.floats(0, 1e12),
    warnings=st.lists(any_text | text(1024), max_size=20).map(tuple),
)
shards_missing = st.builds(
    reports.ShardsMissingReport,
    count=counts,
    shards=st.lists(st.integers(0, 9999), max_size=5000).map(lambda numbers: ",".join(map(str, numbers))),
)
any_report = plan | failure | progress | interrupted | merging | merge | shards_missing


def without_text(report: reports.Report) -> dict[str, object]:
    """What must survive: everything but texts, lists of them, and URIs."""
    cut = {"message", "validation_errors", "validation_errors_uri", "server_message", "warnings", "shards", "plan_uri"}
    dumped = report.model_dump(exclude=cut)
    for name in ("output", "errors", "retry"):
        if dumped.get(name):
            dumped[name].pop("uri")
    for name in ("usage", "finish_reasons"):
        if dumped.get("reused"):
            dumped["reused"].pop(name)
    if dumped.get("progress"):
        dumped["progress"].pop("server_message")
    return dumped


@given(any_report)
@example(reports.FailureReport(reason=Reason.INVALID_INPUT, message="漢" * 2048))
@example(reports.ShardsMissingReport(count=5000, shards=",".join(str(n) for n in range(0, 10_000, 2))))
def test_a_report_fits_and_keeps_every_count(report: reports.Report) -> None:
    text = encode_report(report)
    assert len(text.encode()) <= TERMINATION_MESSAGE_BYTES
    decoded = decode_report(text)
    assert decoded is not None
    assert without_text(decoded) == without_text(report)


@given(any_report)
def test_a_report_that_fits_comes_back_as_it_was(report: reports.Report) -> None:
    assert decode_report(encode_report(report, budget=1 << 30)) == report


@given(failure)
def test_what_is_left_of_a_text_is_its_start(report: reports.FailureReport) -> None:
    decoded = decode_report(encode_report(report))
    assert isinstance(decoded, reports.FailureReport)
    assert report.message.startswith(decoded.message.removesuffix("…"))
    assert len(decoded.validation_errors) <= len(report.validation_errors)
    for kept, error in zip(decoded.validation_errors, report.validation_errors, strict=False):
        assert (kept.code, kept.line, kept.param) == (error.code, error.line, error.param)
        assert error.message.startswith(kept.message.removesuffix("…"))


@given(st.text())
def test_a_message_that_is_no_report_is_none(text: str) -> None:
    assert decode_report(text) is None


@given(counts_by_name)
def test_folding_keeps_the_sum_and_the_bound(counts: dict[str, int]) -> None:
    folded = fold_counts(counts)
    assert sum(folded.values()) == sum(counts.values())
    assert len(folded) <= MAX_COUNT_NAMES
    assert fold_counts(folded) == folded
