"""What a tenant may name as input file or output folder. Pure.

A path is taken literally, as workers take it: nothing is decoded or normalised, and what would need it is refused. That
a path stays in the tenant's part is checked here by its words alone; links are dealt with by what workers mount: see
`volumes`. An object is read and written with the tenant's own credentials, which an administrator made to reach what
the tenant may; here only other tenants' folders in batchPath are refused, should they reach further.
"""

import re
from dataclasses import dataclass
from typing import Final

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.settings import Settings
from batchwright.gateway.volumes import FILE_SCHEME, shared_roots, tenant_root
from batchwright.storage.errors import InvalidLocation
from batchwright.storage.location import Location, parse_location

RESULTS_FOLDER: Final = "batch-results"
S3_SCHEME: Final = "s3://"
LONGEST_URI: Final = 2048
"""As the BatchJob's schema has it."""
LONGEST_FOLDER_KEY: Final = 600
"""Bytes: of the 1,024 that a key may have, work objects and names need the rest."""

_INPUT: Final = "input_file"
_ENCODED: Final = re.compile(r"%(25)*(2f|5c|2e|00)", re.IGNORECASE)
"""A slash, backslash, dot or NUL, once percent-decoded, be it several times."""
_OPTIONS: Final = re.compile(r"\?[^/=]*=")


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a folder."""

    uri: str
    """For the BatchJob; of a folder with its last slash."""
    shown: str
    """For people: a plain path on a volume, the URI of an object; of a folder without its last slash."""


def input_place(settings: Settings, namespace: str, text: str) -> Place:
    """The file that a tenant named. Raises ApiError (400) where it may not be read, or can't be."""
    name = _INPUT
    if text.startswith(S3_SCHEME):
        return _object(settings, namespace, text, name)
    own, shared = _roots(settings, namespace)
    path = _path(settings, text, name, [*own, *shared])
    _check_under(path, [*own, *shared], name)
    return Place(f"{FILE_SCHEME}{path}", path)


def output_place(settings: Settings, namespace: str, text: str | None) -> Place:
    """The folder that a tenant named, or the one for those who named none. Raises ApiError (400) where it may not be
    written to, or can't be.
    """
    name = "output_folder_path"
    own, _ = _roots(settings, namespace)
    if text is None:
        return _default_folder(settings, namespace)
    folder = text.removesuffix("/")
    if text.startswith(S3_SCHEME):
        found = _object(settings, namespace, folder, name)
        if len(parse_location(found.uri).key.encode()) > LONGEST_FOLDER_KEY:
            raise errors.invalid_value(name, f"'{name}' must have at most {LONGEST_FOLDER_KEY} bytes after the bucket.")
        return Place(f"{found.uri}/", found.shown)
    path = _path(settings, folder, name, own)
    if path not in own:
        _check_under(path, own, name)
    return Place(f"{FILE_SCHEME}{path}/", path)


def _default_folder(settings: Settings, namespace: str) -> Place:
    """In the tenant's root; without a volume in the tenant's folder of batchPath."""
    if settings.shared_volume is not None:
        path = f"{tenant_root(settings.shared_volume, namespace)}/{RESULTS_FOLDER}"
        return Place(f"{FILE_SCHEME}{path}/", path)
    uri = f"{settings.batch_path}{namespace}/{RESULTS_FOLDER}"
    return Place(f"{uri}/", uri.removeprefix(FILE_SCHEME))


def _roots(settings: Settings, namespace: str) -> tuple[list[str], list[str]]:
    volume = settings.shared_volume
    return ([tenant_root(volume, namespace)], shared_roots(volume)) if volume is not None else ([], [])


def _path(settings: Settings, text: str, name: str, roots: list[str]) -> str:
    """An absolute path of plain words."""
    path = text.removeprefix(FILE_SCHEME)
    if settings.shared_volume is None:
        raise errors.invalid_value(name, f"'{name}' must be {S3_SCHEME}bucket/key: this gateway has no shared volume.")
    if not path.startswith("/"):
        raise _outside(name, roots)
    _check_words(path.removeprefix("/"), name)
    if len(FILE_SCHEME + path) >= LONGEST_URI:
        raise _too_long(name)
    return path


def _check_under(path: str, roots: list[str], name: str) -> None:
    """Word by word: `/tenants/team-ab` does not lie under `/tenants/team-a`."""
    if not any(path.startswith(f"{root}/") for root in roots):
        raise _outside(name, roots)


def _object(settings: Settings, namespace: str, uri: str, name: str) -> Place:
    if _OPTIONS.search(uri):
        message = f"'{name}' can't bring options such as an endpoint: they are the gateway's settings. Leave out '?…='."
        raise errors.invalid_value(name, message)
    bucket, slash, key = uri.removeprefix(S3_SCHEME).partition("/")
    if slash or name == _INPUT:
        _check_words(key, name)
    if len(uri) >= LONGEST_URI:
        raise _too_long(name)
    try:
        found = parse_location(f"{S3_SCHEME}{bucket}/{key}")
    except InvalidLocation as error:
        raise errors.invalid_value(name, f"'{name}' can't be used: {error.detail}. {error.remedy}") from error
    if _is_others(settings, namespace, found):
        own = f"{settings.batch_path}{namespace}/"
        raise errors.invalid_value(name, f"'{name}' may not be used: of {settings.batch_path} only {own} is yours.")
    return Place(uri, uri)


def _is_others(settings: Settings, namespace: str, found: Location) -> bool:
    """Whether an object or folder lies in batchPath, but not in the tenant's own folder there.

    Some stores keep keys as paths, in which upper and lower case may be the same.
    """
    if not settings.batch_path.startswith(S3_SCHEME):
        return False
    batches, key = parse_location(settings.batch_path), f"{found.key}/"
    inside = found.bucket.lower() == batches.bucket.lower() and key.lower().startswith(batches.key.lower())
    return inside and not (found.bucket == batches.bucket and key.startswith(f"{batches.key}{namespace}/"))


def _check_words(path: str, name: str) -> None:
    """Raises ApiError where a path has anything in it that some reader would take for something else."""
    if not path.isprintable() or "\\" in path:
        raise errors.invalid_value(name, f"'{name}' must have printable characters only, and no backslash.")
    if _ENCODED.search(path):
        message = f"'{name}' is taken literally: write slashes and dots as they are, not percent-encoded."
        raise errors.invalid_value(name, message)
    if any(word in ("", ".", "..") for word in path.split("/")):
        raise errors.invalid_value(name, f"'{name}' must have no '.', '..' and empty parts between its slashes.")


def _outside(name: str, roots: list[str]) -> ApiError:
    listed = ", ".join(f"'{root}/'" for root in roots)
    return errors.invalid_value(name, f"'{name}' must be a path under {listed}, or {S3_SCHEME}bucket/key.")


def _too_long(name: str) -> ApiError:
    return errors.invalid_value(name, f"'{name}' is too long: it may have {LONGEST_URI} characters.")
