"""Style sheet and scripts, under names that hold a digest of their content: a browser keeps them for ever."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Final

FOREVER: Final = "public, max-age=31536000, immutable"
_DIGITS: Final = 12
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    name: str
    """With its digest: page.0123456789ab.css."""
    content: bytes
    media_type: str


class Assets:
    """All of them, read once."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._assets = {plain: _asset(plain, content) for plain, content in contents.items()}
        self._by_name = {asset.name: asset for asset in self._assets.values()}

    def name(self, plain: str) -> str:
        """The name with a digest of a file such as page.css. Raises KeyError."""
        return self._assets[plain].name

    def find(self, name: str) -> Asset | None:
        """The file of a name with its digest."""
        return self._by_name.get(name)


def packaged() -> Assets:
    """Those that lie in this package."""
    folder = files(__package__) / "static"
    known = (entry for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES)
    return Assets({entry.name: entry.read_bytes() for entry in known})


def _asset(plain: str, content: bytes) -> Asset:
    stem, _, kind = plain.rpartition(".")
    return Asset(f"{stem}.{sha256(content).hexdigest()[:_DIGITS]}.{kind}", content, _TYPES[kind])
