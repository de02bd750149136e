import hashlib

from batchwright.storage.s3_multipart import multipart_etag
from batchwright.storage.s3_upload import ForwardProgress

FIRST, SECOND = (hashlib.md5(data).hexdigest() for data in (b"a", b"b"))


def test_the_etag_of_parts_is_that_of_s3() -> None:
    digests = hashlib.md5(b"a").digest() + hashlib.md5(b"b").digest()
    assert multipart_etag([FIRST, SECOND]) == f"{hashlib.md5(digests).hexdigest()}-2"


def test_parts_without_md5_have_no_known_etag() -> None:
    assert multipart_etag([FIRST, "encrypted"]) is None


def test_progress_never_counts_a_byte_twice() -> None:
    reported: list[int] = []
    progress = ForwardProgress(reported.append)
    for size in (10, 5):
        progress.add(size)
    progress.start_again()
    for size in (8, 8, 4):
        progress.add(size)
    assert reported == [10, 5, 1, 4]
