import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.storage.errors import InvalidLocation, StorageError
from batchwright.storage.location import MAX_S3_KEY_BYTES, Location, join_key, parse_location


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket/key", Location("s3", "bucket", "key")),
        ("s3://bucket/in/eval.jsonl", Location("s3", "bucket", "in/eval.jsonl")),
        ("s3://bucket/out/", Location("s3", "bucket", "out/")),
        ("s3://bucket/", Location("s3", "bucket", "")),
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://my.bucket-1/a b+c%20#d?e=f&g", Location("s3", "my.bucket-1", "a b+c%20#d?e=f&g")),
        ("s3://bucket//double//slash", Location("s3", "bucket", "/double//slash")),
        ("s3://bucket/../key", Location("s3", "bucket", "../key")),
        ("s3://bucket/日本語/🐝", Location("s3", "bucket", "日本語/🐝")),
        ("s3://bucket/s3://other/key", Location("s3", "bucket", "s3://other/key")),
        ("file:///data/in.jsonl", Location("file", "/data", "in.jsonl")),
        ("file:///data/out/", Location("file", "/data/out", "")),
        ("file:///in.jsonl", Location("file", "/", "in.jsonl")),
        ("file:///", Location("file", "/", "")),
        ("file:///my data/100%/a#b?c", Location("file", "/my data/100%", "a#b?c")),
        ("file:///data/..data/x..y", Location("file", "/data/..data", "x..y")),
    ],
)
def test_uris_are_taken_literally(uri: str, location: Location) -> None:
    assert parse_location(uri) == location


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://bucket/key", "unknown scheme 'gs'.*s3:// and file://"),
        ("http://host/key", "unknown scheme 'http'.*s3:// and file://"),
        ("S3://bucket/key", "unknown scheme 'S3'"),
        ("s3:///key", "no bucket.*s3://bucket/key"),
        ("s3://", "no bucket"),
        ("s3://my bucket/key", "'my bucket' is not a bucket's name"),
        ("s3://bücket/key", "not a bucket's name"),
        ("s3://arn:aws:s3:eu-central-1:1:accesspoint/x/key", "not a bucket's name.*alias"),
        ("s3://user:password@host/key", "not a bucket's name"),
        (f"s3://bucket/{'é' * 513}", "more than 1024 bytes"),
        ("file://data/in.jsonl", "not absolute.*file:///path"),
        ("file://./in.jsonl", "not absolute"),
        ("file://", "not absolute"),
        ("file:///data/../etc/passwd", "'..'"),
        ("file:///data/..", "'..'"),
        ("file:///data/./x", "'.'"),
        ("file:///data/a\0b", "NUL"),
        ("s3://bucket/a\0b", "NUL"),
        ("s3://bucket/\ud800", "unicode"),
        ("bucket/key", "no scheme"),
        ("/data/in.jsonl", "no scheme"),
        ("", "no scheme"),
    ],
)
def test_what_cannot_be_a_location_says_why(uri: str, message: str) -> None:
    with pytest.raises(InvalidLocation, match=message) as caught:
        parse_location(uri)
    assert isinstance(caught.value, StorageError)
    assert isinstance(caught.value, ValueError)
    str(caught.value).encode()  # it can be logged and stored


def test_the_longest_key_is_accepted() -> None:
    key = "k" * MAX_S3_KEY_BYTES
    assert parse_location(f"s3://bucket/{key}").key == key


@pytest.mark.parametrize(
    ("prefix", "name", "joined"),
    [
        ("", "job", "job"),
        ("out", "job", "out/job"),
        ("out/", "job", "out/job"),
        ("out//", "job", "out//job"),
        ("out", "job/results.jsonl", "out/job/results.jsonl"),
        ("out", "a b%#?", "out/a b%#?"),
    ],
)
def test_a_prefix_gets_one_slash_where_it_has_none(prefix: str, name: str, joined: str) -> None:
    assert join_key(prefix, name) == joined
    assert Location("s3", "bucket", prefix).join(name) == Location("s3", "bucket", joined)


def test_a_joined_file_location_stays_under_its_root() -> None:
    location = parse_location("file:///data/out").join("job/results.jsonl")
    assert location == Location("file", "/data", "out/job/results.jsonl")
    assert location.uri == "file:///data/out/job/results.jsonl"


text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
segments = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), max_size=20)
file_paths = st.lists(segments.filter(lambda segment: segment not in (".", "..")), min_size=1).map("/".join)


@given(text)
def test_any_key_survives_a_round_trip(key: str) -> None:
    location = Location("s3", "bucket", key)
    assert parse_location(location.uri) == location


@given(file_paths)
def test_any_path_survives_a_round_trip(path: str) -> None:
    location = parse_location(f"file:///{path}")
    assert parse_location(location.uri).uri == location.uri
    if not path.startswith("/"):  # several slashes at the very start are one
        assert location.uri == f"file:///{path}"
        assert parse_location(location.uri) == location


@given(text, text.filter(bool))
def test_a_joined_location_starts_with_its_prefix_and_ends_with_the_name(prefix: str, name: str) -> None:
    joined = Location("s3", "bucket", prefix).join(name)
    assert joined.key.startswith(prefix)
    assert joined.key.endswith(name)
    assert len(joined.key) - len(prefix) - len(name) in (0, 1)
