"""The S3 store against a server that fails: through a proxy that injects the faults, before a real server."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchwright.storage.errors import (
    AccessDenied,
    EndpointUnreachable,
    Misconfigured,
    NotFound,
    ObjectChanged,
    PreconditionFailed,
    StorageError,
    StorageUnavailable,
)
from batchwright.storage.join_plan import MIB
from batchwright.storage.probe import probe_conditional_put
from batchwright.storage.protocol import Literal, ObjectRange
from batchwright.storage.s3 import MAX_CONFLICTS, S3Store
from batchwright.storage.s3_read import MAX_READS_WITHOUT_PROGRESS
from fixtures.fault_proxy import (
    Answer,
    Before,
    Cut,
    FaultProxy,
    IgnoreConditions,
    LoseAnswer,
    Page,
    RefuseChecksums,
    Stall,
)
from fixtures.s3 import S3Bucket

DATA = bytes(range(256)) * 4096 * 3  # 3 MiB


@pytest.fixture
def store(open_store: Callable[..., S3Store]) -> S3Store:
    return open_store()


class TestReading:
    def test_a_cut_read_goes_on_where_it_was_cut(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=600_000), times=4)
        assert b"".join(store.stream("object")) == DATA
        ranges = [request.headers["Range"] for request in s3_proxy.requests]
        assert ranges[0] is None
        assert len(ranges) == 5
        assert len(set(ranges)) == 5

    def test_every_later_read_is_bound_to_the_first_answers_etag(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=600_000), times=2)
        list(store.stream("object"))
        matches = [request.headers["If-Match"] for request in s3_proxy.requests]
        etag = f'"{store.head("object").etag}"'
        assert matches == [None, etag, etag]

    def test_a_range_that_is_cut_ends_where_it_was_meant_to(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=300_000), times=2)
        assert b"".join(store.stream("object", start=1000, end=1_000_000)) == DATA[1000:1_000_000]
        assert s3_proxy.requests[-1].headers["Range"].endswith("-999999")

    def test_a_stalled_read_is_taken_up_again(
        self, open_store: Callable[..., S3Store], s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Stall(after=600_000), times=1)
        assert b"".join(open_store(read_timeout=0.3).stream("object")) == DATA

    def test_a_consumer_that_pauses_until_the_connection_is_gone_reads_on(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=MIB + 10), times=1)
        stream = store.stream("object", chunk_size=MIB)
        first = next(stream)  # from now on the server's side is closed, as after minutes
        assert first + b"".join(stream) == DATA

    def test_reads_that_never_get_on_end(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy, pauses: list[float]
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=0))
        with pytest.raises(StorageUnavailable) as caught:
            list(store.stream("object"))
        assert caught.value.uri == store.uri("object")
        assert s3_proxy.operations == ["GetObject"] * MAX_READS_WITHOUT_PROGRESS
        assert len(pauses) == MAX_READS_WITHOUT_PROGRESS - 1

    def test_an_object_that_is_replaced_during_the_read_is_not_mixed(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=600_000), times=1)
        s3_proxy.inject("GetObject", Before(lambda: s3_bucket.put("object", DATA[::-1])), times=1)
        with pytest.raises(ObjectChanged):
            list(store.stream("object"))

    def test_an_object_that_is_deleted_during_the_read_is_told(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=600_000), times=1)
        delete = Before(lambda: s3_bucket.client.delete_object(Bucket=s3_bucket.name, Key="object"))
        s3_proxy.inject("GetObject", delete, times=1)
        with pytest.raises(NotFound):
            list(store.stream("object"))

    def test_a_store_that_is_away_for_a_while_during_the_read_is_waited_for(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy, pauses: list[float]
    ) -> None:
        s3_bucket.put("object", DATA)
        s3_proxy.inject("GetObject", Cut(after=600_000), times=1)
        s3_proxy.inject("GetObject", Answer(503, "SlowDown"), times=4)
        assert b"".join(store.stream("object")) == DATA
        assert pauses == sorted(pauses)

    def test_small_reads_are_resumed_too(self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> None:
        s3_bucket.put("object", b"0123456789")
        s3_proxy.inject("GetObject", Cut(after=4), times=1)
        assert store.read("object") == b"0123456789"


class TestHead:
    def test_a_refused_head_is_explained_by_a_get(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("HeadObject", Answer(403, ""))
        s3_proxy.inject("GetObject", Answer(403, "InvalidAccessKeyId", "The access key does not exist"))
        with pytest.raises(StorageError, match="access key does not exist"):
            store.head("object")

    def test_a_store_that_refuses_only_head_is_asked_by_get(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", DATA)
        expected = store.head("object")
        s3_proxy.inject("HeadObject", Answer(403, ""))
        assert store.head("object") == expected


class TestWriting:
    def test_throttling_is_retried(self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", Answer(503, "SlowDown"), times=1)
        store.write("object", b"content")
        assert s3_proxy.operations == ["PutObject", "PutObject"]

    def test_lasting_throttling_is_retryable_later(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", Answer(503, "SlowDown", "Reduce your request rate"))
        with pytest.raises(StorageUnavailable, match="Reduce your request rate") as caught:
            store.write("object", b"content")
        assert caught.value.retryable

    def test_a_conflict_is_retried(self, store: S3Store, s3_proxy: FaultProxy, pauses: list[float]) -> None:
        s3_proxy.inject("PutObject", Answer(409, "ConditionalRequestConflict"), times=2)
        store.write("claim", b"mine", if_none_match=True)
        assert store.read("claim") == b"mine"
        assert len(pauses) == 2

    def test_endless_conflicts_end(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", Answer(409, "ConditionalRequestConflict"))
        with pytest.raises(StorageUnavailable):
            store.write("claim", b"mine", if_none_match=True)
        assert s3_proxy.operations == ["PutObject"] * MAX_CONFLICTS

    def test_a_lost_answer_makes_ones_own_win_look_like_a_loss(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", LoseAnswer(), times=1)
        with pytest.raises(PreconditionFailed):
            store.write("claim", b"attempt 1", if_none_match=True)
        assert store.read("claim") == b"attempt 1"

    @pytest.mark.parametrize("size", [100, 20 * MIB])
    def test_no_checksum_is_sent_unasked(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy, size: int
    ) -> None:
        s3_proxy.inject("*", RefuseChecksums())
        s3_bucket.put("piece", bytes(size))
        store.write("object", b"content", if_none_match=True)
        store.read("object")
        store.join("joined", [ObjectRange("piece", 0, size), Literal(b"x")])
        list(store.list(""))
        assert [request.checksum_headers for request in s3_proxy.requests if request.checksum_headers] == []
        assert not any("x-amz-checksum-mode" in request.headers for request in s3_proxy.requests)

    def test_an_encryption_key_is_asked_for_in_every_write(
        self, open_store: Callable[..., S3Store], s3_proxy: FaultProxy
    ) -> None:
        s3_proxy.inject("*", Answer(501, "NotImplemented"))
        encrypted = open_store(kms_key_id="key-1")
        with pytest.raises(StorageError):
            encrypted.write("object", b"")
        with pytest.raises(StorageError):
            encrypted.join("object", [Literal(bytes(17 * MIB))])
        assert s3_proxy.operations == ["PutObject", "CreateMultipartUpload"]
        for request in s3_proxy.requests:
            assert request.headers["x-amz-server-side-encryption"] == "aws:kms"
            assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"


class TestDeleting:
    def test_md5_is_sent_for_stores_that_know_nothing_newer(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        s3_bucket.put("object", b"")
        assert store.delete(["object"]) == ()
        assert s3_proxy.requests[0].headers["Content-MD5"]

    @pytest.mark.parametrize("fault", [Answer(501, "NotImplemented"), RefuseChecksums()])
    def test_without_bulk_deletes_objects_go_one_by_one(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy, fault: Answer | RefuseChecksums
    ) -> None:
        keys = ["a", "b c", "ü"]
        for key in keys:
            s3_bucket.put(key, b"")
        s3_proxy.inject("DeleteObjects", fault)
        assert store.delete([*keys, "missing"]) == ()
        assert list(store.list("")) == []
        assert s3_proxy.operations[:5] == ["DeleteObjects"] + ["DeleteObject"] * 4

    def test_a_store_that_is_away_is_reported_and_not_raised(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("DeleteObjects", Answer(503, "SlowDown"))
        failures = store.delete(["a", "b"])
        assert [failure.key for failure in failures] == ["a", "b"]
        assert "SlowDown" in failures[0].reason


class TestListing:
    def test_the_first_keys_are_there_before_the_second_page_is_asked_for(
        self, store: S3Store, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: s3_bucket.put(f"many/{number:04}", b""), range(1005)))
        listing = store.list("many/", start_after="many/0001")
        assert s3_proxy.operations == []
        assert [next(listing).key for _ in range(3)] == ["many/0002", "many/0003", "many/0004"]
        assert s3_proxy.operations == ["ListObjectsV2"]
        assert len(list(listing)) == 1000
        assert s3_proxy.operations == ["ListObjectsV2"] * 2


class TestProbing:
    def test_a_store_that_ignores_the_condition_is_found(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", IgnoreConditions())
        assert probe_conditional_put(store, "out/") is False
        assert list(store.list("")) == []

    @pytest.mark.parametrize(("status", "code"), [(501, "NotImplemented"), (400, "InvalidArgument")])
    def test_a_store_that_does_not_know_the_header_is_found(
        self, store: S3Store, s3_proxy: FaultProxy, status: int, code: str
    ) -> None:
        s3_proxy.inject("PutObject", Answer(status, code), times=1)
        assert probe_conditional_put(store, "out/") is False
        assert list(store.list("")) == []

    def test_a_lost_answer_does_not_confuse_the_probe(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", LoseAnswer(), times=1)
        assert probe_conditional_put(store, "out/") is True

    def test_a_refused_write_is_raised(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("PutObject", Answer(403, "AccessDenied"))
        with pytest.raises(AccessDenied, match="s3:PutObject"):
            probe_conditional_put(store, "out/")


class TestBadSettings:
    def test_an_endpoint_that_is_down_is_named(self, s3_bucket: S3Bucket) -> None:
        store = s3_bucket.store(settings=s3_bucket.settings_for("http://127.0.0.1:9", connect_timeout=1.0))
        with pytest.raises(EndpointUnreachable, match=r"127\.0\.0\.1:9.*endpointURL"):
            store.head("object")

    def test_a_host_that_does_not_exist_is_named(self, s3_bucket: S3Bucket) -> None:
        store = s3_bucket.store(settings=s3_bucket.settings_for("http://no-such-host.invalid:7070"))
        with pytest.raises(EndpointUnreachable, match="no-such-host"):
            list(store.list(""))

    def test_https_towards_a_plain_server_is_a_setting_to_correct(
        self, s3_bucket: S3Bucket, s3_proxy: FaultProxy
    ) -> None:
        endpoint = s3_bucket.server.endpoint_url.replace("http", "https")
        with pytest.raises((Misconfigured, EndpointUnreachable), match="endpointURL"):
            s3_bucket.store(settings=s3_bucket.settings_for(endpoint)).head("object")

    @pytest.mark.parametrize("endpoint", ["not a url", "s3:7070", "http://"])
    def test_an_impossible_endpoint_is_refused_before_any_request(self, s3_bucket: S3Bucket, endpoint: str) -> None:
        with pytest.raises(Misconfigured, match="endpointURL"):
            s3_bucket.store(settings=s3_bucket.settings_for(endpoint))

    @pytest.mark.parametrize("status", [200, 404, 403])
    @pytest.mark.parametrize("call", ["head", "read", "list", "write"])
    def test_something_that_is_no_s3_server_ends_in_an_error_of_ours(
        self, store: S3Store, s3_proxy: FaultProxy, call: str, status: int
    ) -> None:
        s3_proxy.inject("*", Page(status))
        calls: dict[str, Callable[[], object]] = {
            "list": lambda: list(store.list("")),
            "write": lambda: store.write("object", b""),
            "read": lambda: store.read("object"),
            "head": lambda: store.head("object"),
        }
        with pytest.raises(StorageError):
            calls[call]()

    def test_a_wrong_region_is_named(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        message = "the region 'us-east-1' is wrong; expecting 'eu-central-1'"
        s3_proxy.inject("*", Answer(400, "AuthorizationHeaderMalformed", message))
        with pytest.raises(Misconfigured, match=r"eu-central-1.*region"):
            list(store.list(""))
