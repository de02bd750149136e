import posixpath
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchwright.gateway.errors import ApiError
from batchwright.gateway.resource_server.locations import Place, input_place, output_place
from batchwright.gateway.settings import Settings

VOLUME = {"claimName": "data", "mountPath": "/data", "sharedRoots": ["models", "sets/public"]}


def settings_of(batch_path: str = "s3://batches/gateway/", **more: Any) -> Settings:
    return Settings.model_validate({"batchPath": batch_path, **more})


WITH_VOLUME = settings_of(sharedVolume=VOLUME)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/tenants/team-a/in.jsonl", "/data/tenants/team-a/in.jsonl"),
        ("file:///data/tenants/team-a/in.jsonl", "/data/tenants/team-a/in.jsonl"),
        ("/data/tenants/team-a/deep/er/a b+c#d?.jsonl", "/data/tenants/team-a/deep/er/a b+c#d?.jsonl"),
        ("/data/tenants/team-a/größe-100%.jsonl", "/data/tenants/team-a/größe-100%.jsonl"),
        ("/data/tenants/team-a/..in.jsonl", "/data/tenants/team-a/..in.jsonl"),
        ("/data/tenants/team-a/.hidden/in.jsonl", "/data/tenants/team-a/.hidden/in.jsonl"),
        ("/data/models/prompts.jsonl", "/data/models/prompts.jsonl"),
        ("/data/sets/public/a.jsonl", "/data/sets/public/a.jsonl"),
    ],
)
def test_an_input_in_the_tenants_part_or_a_shared_root_is_taken_literally(text: str, path: str) -> None:
    assert input_place(WITH_VOLUME, "team-a", text) == Place(f"file://{path}", path)


OUTSIDE = "must be a path under '/data/tenants/team-a/'"
WORDS = "must have no '.', '..' and empty parts"
LITERAL = "taken literally"
PRINTABLE = "printable"

REFUSED_EVERYWHERE = [
    ("/data/tenants/team-b/in.jsonl", OUTSIDE),
    ("/data/tenants/team-ab/in.jsonl", OUTSIDE),
    ("/data/tenants/team-a.bak/in.jsonl", OUTSIDE),
    ("/data/tenants/TEAM-A/in.jsonl", OUTSIDE),
    ("/data/tenants/in.jsonl", OUTSIDE),
    ("/data/in.jsonl", OUTSIDE),
    ("/data/sets/private/a.jsonl", OUTSIDE),
    ("/data/sets/public-not/a.jsonl", OUTSIDE),
    ("/etc/passwd", OUTSIDE),
    ("/etc/batchwright/storage/AWS_SECRET_ACCESS_KEY", OUTSIDE),
    ("/database/tenants/team-a/in.jsonl", OUTSIDE),
    ("/proc/self/root/data/tenants/team-b/in.jsonl", OUTSIDE),
    ("data/tenants/team-a/in.jsonl", OUTSIDE),
    ("in.jsonl", OUTSIDE),
    ("~/in.jsonl", OUTSIDE),
    ("/data/tenants/team-a/../team-b/in.jsonl", WORDS),
    ("/data/tenants/team-a/..", WORDS),
    ("/data/models/../tenants/team-b/in.jsonl", WORDS),
    ("/data/tenants/team-a/./in.jsonl", WORDS),
    ("/data/tenants/team-a//in.jsonl", WORDS),
    ("//data/tenants/team-a/in.jsonl", WORDS),
    ("/data/tenants/team-a/%2e%2e/team-b/in.jsonl", LITERAL),
    ("/data/tenants/team-a/%2E./team-b/in.jsonl", LITERAL),
    ("/data/tenants/team-a%2F..%2Fteam-b/in.jsonl", LITERAL),
    ("/data/tenants/team-a/..%252fteam-b/in.jsonl", LITERAL),
    ("/data/tenants/team-a/..%25255cteam-b", LITERAL),
    ("/data/tenants/team-a/in.jsonl%00.txt", LITERAL),
    ("/data/tenants/team-a/in\x00.jsonl", PRINTABLE),
    ("/data/tenants/team-a/in\n.jsonl", PRINTABLE),
    ("/data/tenants/team-a/\u202egnp.jsonl", PRINTABLE),
    ("/data/tenants/team-a/..\\team-b\\in.jsonl", PRINTABLE),
    ("file://host/data/tenants/team-a/in.jsonl", OUTSIDE),
    ("file:/data/tenants/team-a/in.jsonl", OUTSIDE),
    ("file:////data/tenants/team-a/in.jsonl", WORDS),
    ("FILE:///data/tenants/team-a/in.jsonl", OUTSIDE),
    ("file://file:///data/tenants/team-a/in.jsonl", OUTSIDE),
    ("http://10.0.0.1/in.jsonl", OUTSIDE),
    ("https://169.254.169.254/latest/meta-data", OUTSIDE),
    ("S3://bucket/in.jsonl", OUTSIDE),
    (f"/data/tenants/team-a/{'x' * 2048}", "too long"),
]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *REFUSED_EVERYWHERE,
        ("/data/tenants/team-a", OUTSIDE),
        ("/data/tenants/team-a/", WORDS),
        ("/data/models", OUTSIDE),
        ("/", WORDS),
    ],
)
def test_an_input_elsewhere_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        input_place(WITH_VOLUME, "team-a", text)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_value", "input_file")
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("text", "reason"), [*REFUSED_EVERYWHERE, ("/data/models/out", OUTSIDE), ("/data/sets/public", OUTSIDE)]
)
def test_an_output_folder_elsewhere_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        output_place(WITH_VOLUME, "team-a", text)
    assert (caught.value.status, caught.value.param) == (400, "output_folder_path")
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/tenants/team-a", "/data/tenants/team-a"),
        ("/data/tenants/team-a/", "/data/tenants/team-a"),
        ("/data/tenants/team-a/out", "/data/tenants/team-a/out"),
        ("file:///data/tenants/team-a/out/", "/data/tenants/team-a/out"),
        (None, "/data/tenants/team-a/batch-results"),
    ],
)
def test_an_output_folder_in_the_tenants_own_part_is_taken(text: str | None, path: str) -> None:
    assert output_place(WITH_VOLUME, "team-a", text) == Place(f"file://{path}/", path)


@pytest.mark.parametrize(
    ("batch_path", "uri"),
    [
        ("s3://batches/gateway/", "s3://elsewhere/in.jsonl"),
        ("s3://batches/gateway/", "s3://batches/in.jsonl"),
        ("s3://batches/gateway/", "s3://batches/gatewayish/in.jsonl"),
        ("s3://batches/gateway/", "s3://batches/gateway/team-a/file-0"),
        ("s3://batches/", "s3://batches/team-a/batch-0/results.jsonl"),
        ("s3://batches/", "s3://batches-of-others/team-b/x"),
        ("file:///batches/", "s3://bucket/team-b/in.jsonl"),
    ],
)
def test_an_object_is_taken_with_or_without_a_volume(batch_path: str, uri: str) -> None:
    for settings in (settings_of(batch_path), settings_of(batch_path, sharedVolume=VOLUME)):
        assert input_place(settings, "team-a", uri) == Place(uri, uri)


@pytest.mark.parametrize(
    ("batch_path", "uri", "reason"),
    [
        ("s3://batches/gateway/", "s3://batches/gateway/team-b/file-0", "only s3://batches/gateway/team-a/ is yours"),
        ("s3://batches/gateway/", "s3://batches/gateway/team-ab/file-0", "is yours"),
        ("s3://batches/gateway/", "s3://batches/gateway/.gateway/batches/team-a/batch_0.json", "is yours"),
        ("s3://batches/gateway/", "s3://batches/Gateway/team-b/file-0", "is yours"),
        ("s3://batches/gateway/", "s3://BATCHES/gateway/team-b/file-0", "is yours"),
        ("s3://batches/", "s3://batches/in/file.jsonl", "is yours"),
        ("s3://batches/", "s3://batches/.gateway/files/team-a/file-0.json", "is yours"),
        ("s3://batches/gateway/", "s3://batches/gateway/team-a/../team-b/file-0", WORDS),
        ("s3://batches/gateway/", "s3://batches//gateway/team-b/file-0", WORDS),
        ("s3://batches/gateway/", "s3://batches/./gateway/team-b/file-0", WORDS),
        ("s3://batches/gateway/", "s3://batches/gateway%2fteam-b/file-0", LITERAL),
        ("s3://batches/gateway/", "s3://batches/x\x00", PRINTABLE),
        ("s3://batches/gateway/", "s3://batches/folder/", WORDS),
        ("s3://batches/gateway/", "s3://batches", WORDS),
        ("s3://batches/gateway/", "s3://own/in.jsonl?endpoint=http://10.0.0.1", "can't bring options"),
        ("s3://batches/gateway/", "s3://own/in.jsonl?endpoint=10.0.0.1/in.jsonl", "can't bring options"),
        ("s3://batches/gateway/", "s3:///key", "has no bucket"),
        ("s3://batches/gateway/", "s3://user@host/key", "is not a bucket's name"),
        ("s3://batches/gateway/", "s3://host:9000/key", "is not a bucket's name"),
        ("s3://batches/gateway/", "s3://batches\x00/key", "NUL"),
        ("s3://batches/gateway/", f"s3://batches/{'ü' * 600}", "more than 1024 bytes"),
    ],
)
def test_an_object_that_is_or_may_be_another_tenants_is_refused(batch_path: str, uri: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        input_place(settings_of(batch_path), "team-a", uri)
    assert caught.value.status == 400
    assert reason in caught.value.message


@pytest.mark.parametrize("key", ["what?.jsonl", "a=b/c?d/e.jsonl", "50%.jsonl", "x#y.jsonl"])
def test_a_key_is_literal_and_no_query(key: str) -> None:
    assert input_place(settings_of(), "team-a", f"s3://own/{key}") == Place(f"s3://own/{key}", f"s3://own/{key}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://own/out/", Place("s3://own/out/", "s3://own/out")),
        ("s3://own/out", Place("s3://own/out/", "s3://own/out")),
        ("s3://own", Place("s3://own/", "s3://own")),
        ("s3://own/", Place("s3://own/", "s3://own")),
        ("s3://batches/gateway/team-a", Place("s3://batches/gateway/team-a/", "s3://batches/gateway/team-a")),
    ],
)
def test_an_output_prefix_is_taken(text: str, place: Place) -> None:
    assert output_place(settings_of(), "team-a", text) == place


@pytest.mark.parametrize(
    "text", ["s3://batches/gateway", "s3://batches/gateway/team-b/", "s3://own//", "s3://own/a//b", "s3://", "s3:"]
)
def test_an_output_prefix_that_holds_other_tenants_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(ApiError):
        output_place(settings_of(), "team-a", text)


def test_an_output_prefix_leaves_room_for_the_names_of_what_is_written() -> None:
    with pytest.raises(ApiError, match="at most 600 bytes"):
        output_place(settings_of(), "team-a", f"s3://own/{'x' * 601}")


@pytest.mark.parametrize(
    ("batch_path", "place"),
    [
        (
            "s3://batches/gateway/",
            Place("s3://batches/gateway/team-a/batch-results/", "s3://batches/gateway/team-a/batch-results"),
        ),
        ("file:///batches/", Place("file:///batches/team-a/batch-results/", "/batches/team-a/batch-results")),
    ],
)
def test_without_a_volume_results_go_to_the_tenants_folder_of_batch_path(batch_path: str, place: Place) -> None:
    assert output_place(settings_of(batch_path), "team-a", None) == place


def test_without_a_volume_there_are_no_paths() -> None:
    for find in (input_place, output_place):
        with pytest.raises(ApiError, match="this gateway has no shared volume"):
            find(settings_of("file:///data/"), "team-a", "/data/team-a/in.jsonl")


WORDS_OF_PATHS = (
    *("", ".", "..", "data", "tenants", "team-a", "team-b", "team-ab", "models", "in.jsonl", "%2e%2e", "..%2fteam-b"),
    *("%252e%252e", "sets", "public", "gateway", ".gateway", "batches", "x\x00", "a b", "ü", "...", "%2F", "\\.."),
)
WORD = st.sampled_from(WORDS_OF_PATHS)
START = st.sampled_from(["/", "", "file://", "file:///", "//", "/data/tenants/team-a/", "/data/models/", "s3://"])
TEXT = st.one_of(st.builds(lambda start, words: start + "/".join(words), START, st.lists(WORD, max_size=7)), st.text())


def readings(path: str) -> set[str]:
    """What a reader may make of a path that decodes it, once or often, and resolves its dots."""
    found = {path}
    for _ in range(4):
        found |= {unquote(one) for one in found}
    return {posixpath.normpath(one.replace("\\", "/")) for one in found}


@given(TEXT)
@example("/data/tenants/team-a/..%2f..%2fteam-b/in.jsonl")
@example("s3://batches/gateway/team-a/%2e%2e/team-b/x")
def test_no_accepted_input_leaves_its_roots_however_it_is_read(text: str) -> None:
    try:
        place = input_place(WITH_VOLUME, "team-a", text)
    except ApiError:
        return
    if place.uri.startswith("file://"):
        roots = ("/data/tenants/team-a/", "/data/models/", "/data/sets/public/")
        assert all(reading.startswith(roots) for reading in readings(place.shown))
        assert posixpath.normpath(place.shown) == place.shown == place.uri.removeprefix("file://")
    else:
        for reading in readings(place.uri.removeprefix("s3:/")):
            assert not reading.startswith("/batches/gateway/") or reading.startswith("/batches/gateway/team-a/")


@given(TEXT)
def test_no_accepted_output_folder_leaves_the_tenants_own_part(text: str) -> None:
    try:
        place = output_place(WITH_VOLUME, "team-a", text)
    except ApiError:
        return
    assert place.uri == f"{place.uri.removesuffix('/')}/"
    if place.uri.startswith("file://"):
        assert all(f"{reading}/".startswith("/data/tenants/team-a/") for reading in readings(place.shown))
    else:
        for reading in readings(place.uri.removeprefix("s3:/")):
            assert not f"{reading}/".startswith("/batches/gateway/") or f"{reading}/".startswith(
                "/batches/gateway/team-a/"
            )
