"""Records: what is written is read, and nothing else is taken for one."""

import json
from datetime import UTC, datetime

import pytest
from msgspec import Struct

from batchwright.batchfile.counts import ProgressCounts, Usage
from batchwright.batchfile.origin_record import EarlierPart, OriginRecord
from batchwright.batchfile.plan_record import (
    FORMAT_VERSION,
    RANGES_VERSION,
    READABLE_VERSIONS,
    PlannedInput,
    PlanRecord,
    RecordError,
    Shard,
    decode_record,
    encode_record,
    fingerprint,
)
from batchwright.batchfile.progress_object import ProgressRecord
from batchwright.batchfile.shard_record import (
    ERRORS,
    KINDS,
    RESULTS,
    RETRY,
    ClaimRecord,
    OpeningRecord,
    ShardFile,
    ShardRecord,
    SummaryRecord,
    Totals,
    WorkerState,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TOTALS = Totals(3, 1, Usage(10, None, 20, 0, 30), {"stop": 3}, {"400": 1})
PLAN = PlanRecord(
    fingerprint="0123456789abcdef",
    input=PlannedInput("s3://b/in é.jsonl", "etag", 123, None),
    endpoint="/v1/embeddings",
    model="m",
    lines=3,
    lines_per_shard=2,
    conditional_put=True,
    shards=(Shard(3, 60, 1, 2), Shard(60, 123, 5, 1)),
)
SHARD = ShardRecord(
    shard=7,
    run=1,
    index=2,
    attempt="x",
    lines=4,
    totals=TOTALS,
    started_at=NOW,
    finished_at=NOW,
    results=ShardFile("k", 100, 3),
    errors=ShardFile("e", 10, 1),
)
RECORDS = [
    PLAN,
    SHARD,
    ClaimRecord(2, "x"),
    OpeningRecord(1, 2, "x", finished=5, kills=1),
    WorkerState(1, 2, 3, TOTALS, {7: "x"}),
    WorkerState(1, 2, 3, TOTALS, {7: "x"}, ProgressCounts(3, 30, 2)),
    ProgressRecord(1, 2, "x", NOW, ProgressCounts(3, 30, 2)),
    SummaryRecord("0123456789abcdef", 4, TOTALS, {"results": ShardFile("k", 100, 3)}, NOW, NOW, NOW),
]
RANGE = ShardFile("k", 100, 3, start=7)
SEEDED_RECORDS = [
    OriginRecord("0123456789abcdef", {"results": ShardFile("k", 100, 3, "etag")}, TOTALS, shards=2),
    EarlierPart(RANGE, None),
]
"""Of work that goes on from what an earlier BatchJob published."""


def kind_of(record: Struct) -> str:
    return type(record).__name__


@pytest.mark.parametrize("record", [*RECORDS, *SEEDED_RECORDS], ids=kind_of)
def test_a_record_is_read_as_it_was_written(record: Struct) -> None:
    assert decode_record(encode_record(record), type(record)) == record


@pytest.mark.parametrize("record", RECORDS, ids=kind_of)
def test_a_record_of_another_version_is_refused_whatever_its_shape(record: Struct) -> None:
    other = max(READABLE_VERSIONS) + 1
    for value in ({**json.loads(encode_record(record)), "version": other}, {"version": other, "all": "new"}):
        message = f"{kind_of(record)} of version {other}; this program reads the versions 1 and 2"
        with pytest.raises(RecordError, match=message):
            decode_record(json.dumps(value).encode(), type(record))


@pytest.mark.parametrize("record", RECORDS, ids=kind_of)
def test_every_record_carries_the_version(record: Struct) -> None:
    assert json.loads(encode_record(record))["version"] == FORMAT_VERSION


@pytest.mark.parametrize("record", SEEDED_RECORDS, ids=kind_of)
def test_a_record_that_is_new_with_seeded_work_has_its_version(record: Struct) -> None:
    assert json.loads(encode_record(record))["version"] == RANGES_VERSION


@pytest.mark.parametrize("kind", [PLAN, SHARD], ids=kind_of)
def test_both_versions_are_read(kind: Struct) -> None:
    for version in READABLE_VERSIONS:
        value = {**json.loads(encode_record(kind)), "version": version}
        assert decode_record(json.dumps(value).encode(), type(kind)).version == version  # type: ignore[attr-defined]


def test_a_file_may_be_a_part_of_another_object() -> None:
    assert (RANGE.start, RANGE.end) == (7, 107)
    assert ShardFile("k", 100, 3).end == 100


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"version":"1"}', b"{}"])
def test_a_damaged_record_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match="not a readable PlanRecord"):
        decode_record(data, PlanRecord)


@pytest.mark.parametrize("record", RECORDS[1:], ids=kind_of)
def test_a_record_of_another_kind_is_refused(record: Struct) -> None:
    with pytest.raises(RecordError, match="not a readable PlanRecord"):
        decode_record(encode_record(record), PlanRecord)


def test_a_field_of_a_later_minor_change_is_passed_over() -> None:
    value = {**json.loads(encode_record(PLAN)), "comment": "new"}
    assert decode_record(json.dumps(value).encode(), PlanRecord) == PLAN


@pytest.mark.parametrize(
    ("record", "later"),
    [
        (WorkerState(1, 2, 3, TOTALS), ["open_shards"]),
        (SummaryRecord("f", 4, TOTALS, {}, NOW), ["worked_from", "worked_until"]),
    ],
    ids=["WorkerState", "SummaryRecord"],
)
def test_what_was_written_before_a_field_was_known_is_read(record: Struct, later: list[str]) -> None:
    value = {name: value for name, value in json.loads(encode_record(record)).items() if name not in later}
    assert decode_record(json.dumps(value).encode(), type(record)) == record


def test_a_shard_record_names_its_files_by_kind() -> None:
    assert [SHARD.file(kind) for kind in KINDS] == [SHARD.results, SHARD.errors, None]
    assert KINDS == (RESULTS, ERRORS, RETRY)


IDENTITY = {
    "input_uri": "s3://bucket/in.jsonl",
    "etag": "abc",
    "version_id": None,
    "size": 1000,
    "endpoint": "/v1/chat/completions",
    "model": "qwen",
    "lines_per_shard": None,
}


def test_the_fingerprint_is_the_same_for_ever() -> None:
    # A change here makes everybody's finished work unknown: only with a new FORMAT_VERSION.
    assert fingerprint(**IDENTITY) == "4d59a69439155f68"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_uri", "s3://bucket/other.jsonl"),
        ("etag", "abd"),
        ("version_id", "v1"),
        ("size", 1001),
        ("endpoint", "/v1/embeddings"),
        ("model", "llama"),
        ("lines_per_shard", 1000),
        ("anew", "uid-1"),
    ],
)
def test_the_fingerprint_covers(name: str, value: object) -> None:
    assert fingerprint(**{**IDENTITY, name: value}) != fingerprint(**IDENTITY)  # type: ignore[arg-type]


def test_a_version_stands_for_the_etag() -> None:
    versions = [fingerprint(**{**IDENTITY, "version_id": "v1", "etag": etag}) for etag in ("a", "b")]  # type: ignore[arg-type]
    assert versions[0] == versions[1]
