"""Where an object or a prefix lies: literal URIs, `s3://bucket/key` and `file:///path`.

Nothing is percent-decoded and nothing has a meaning after the bucket: spaces, unicode, `+`, `%`, `#` and `?`
are characters of the key, as they are for the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from batchwright.storage.errors import InvalidLocation

S3 = "s3"
FILE = "file"
SUPPORTED_SCHEMES = (S3, FILE)

MAX_S3_KEY_BYTES = 1024
"""Amazon S3, "Object key naming guidelines": at most 1,024 bytes of UTF-8."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True, slots=True)
class Location:
    """A key in a bucket, or in a folder of a mounted volume.

    scheme: "s3" or "file"
    bucket: the bucket's name; for files the absolute path of the root folder: the URI up to its last slash
    key: the object's key or the prefix; may be empty (the whole bucket or folder)
    """

    scheme: str
    bucket: str
    key: str

    @property
    def uri(self) -> str:
        """The URI, literally. `parse_location` of it is a location with the same URI."""
        if self.scheme == FILE:
            folder = "" if self.bucket == "/" else self.bucket
            return f"file://{folder}/{self.key}"
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def __str__(self) -> str:
        return self.uri

    def join(self, name: str) -> Location:
        """The location of `name` under this one as a prefix, in the same bucket or root folder (see
        `join_key`).
        """
        return Location(self.scheme, self.bucket, join_key(self.key, name))


def join_key(prefix: str, name: str) -> str:
    """`prefix` and `name` with exactly one slash added where the prefix has none at its end; `name` stays as
    it is.
    """
    return f"{prefix}{name}" if not prefix or prefix.endswith("/") else f"{prefix}/{name}"


def parse_location(uri: str) -> Location:
    """Split a URI, or raise InvalidLocation with the reason and an example of what would be right."""
    _refuse_unusable_characters(uri)
    match = _SCHEME.fullmatch(uri)
    if match is None:
        raise _invalid(uri, "it has no scheme", "Write s3://bucket/key or file:///path.")
    scheme, rest = match.groups()
    if scheme == S3:
        return _parse_s3(uri, rest)
    if scheme == FILE:
        return _parse_file(uri, rest)
    supported = " and ".join(f"{name}://" for name in SUPPORTED_SCHEMES)
    raise _invalid(uri, f"unknown scheme {scheme!r}", f"Supported are {supported}.")


def _parse_s3(uri: str, rest: str) -> Location:
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise _invalid(uri, "it has no bucket", "Write s3://bucket/key.")
    if not _BUCKET.fullmatch(bucket):
        raise _invalid(
            uri,
            f"{bucket!r} is not a bucket's name",
            "Names have letters, digits, '.', '-' and '_'; for an access point use its alias.",
        )
    if len(key.encode()) > MAX_S3_KEY_BYTES:
        raise _invalid(uri, f"the key has more than {MAX_S3_KEY_BYTES} bytes", "Use a shorter key.")
    return Location(S3, bucket, key)


def _parse_file(uri: str, path: str) -> Location:
    if not path.startswith("/"):
        raise _invalid(uri, "the path is not absolute", "Write file:///path, with three slashes and no host.")
    if any(segment in (".", "..") for segment in path.split("/")):
        raise _invalid(uri, "the path has a segment '.' or '..'", "Write the path without them.")
    folder, _, key = path.rpartition("/")
    return Location(FILE, folder or "/", key)


def _refuse_unusable_characters(uri: str) -> None:
    if "\0" in uri:
        raise _invalid(uri.replace("\0", "\\0"), "it has a NUL character", "Remove it.")
    try:
        uri.encode()
    except UnicodeEncodeError:
        shown = uri.encode(errors="backslashreplace").decode()
        raise _invalid(shown, "it is not valid unicode", "Remove the lone surrogate.") from None


def _invalid(uri: str, detail: str, remedy: str) -> InvalidLocation:
    return InvalidLocation("parse", uri, detail, None, remedy)
