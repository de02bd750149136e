"""What decoding a JSON text of somebody else's may raise: a text that can't be read, and no fault of ours.

What is left out is found by whoever writes such a text: one that is nested by the thousand raises RecursionError.
"""

from typing import Final

from msgspec import DecodeError, ValidationError

UNDECODABLE: Final = (DecodeError, RecursionError, UnicodeDecodeError)
assert issubclass(ValidationError, DecodeError), "a value of a wrong type is refused like a wrong text"
