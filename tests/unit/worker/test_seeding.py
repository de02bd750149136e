"""Where each shard's files stand in what was published of all of them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.shard_record import KINDS, ShardFile, ShardRecord, Totals
from batchwright.worker.seeding import ranges_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
contents = st.lists(st.tuples(*(st.one_of(st.none(), st.binary(min_size=1, max_size=20)) for _ in KINDS)), max_size=20)


@given(contents)
def test_a_range_holds_what_the_shards_own_file_held(shards: list[tuple[bytes | None, ...]]) -> None:
    records = [
        ShardRecord(
            number,
            *(1, 0, "x", 1, Totals(), NOW, NOW),
            *(
                None if data is None else ShardFile(f"{number}-{kind}", len(data), 1)
                for kind, data in zip(KINDS, files, strict=True)
            ),
        )
        for number, files in enumerate(shards)
    ]
    joined = {kind: b"".join(files[place] or b"" for files in shards) for place, kind in enumerate(KINDS)}
    whole = {kind: ShardFile(f"earlier/{kind}", len(data), 0) for kind, data in joined.items()}
    found = list(ranges_of(records, whole))
    assert len(found) == len(shards)
    for files, ranges in zip(shards, found, strict=True):
        for kind, data in zip(KINDS, files, strict=True):
            assert (kind in ranges) == (data is not None)
            if data is not None:
                assert ranges[kind].key == f"earlier/{kind}"
                assert joined[kind][ranges[kind].start : ranges[kind].end] == data
