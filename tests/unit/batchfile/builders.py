"""Inputs for tests, and the check of a whole one."""

import json
from collections.abc import Iterator
from typing import Any

from batchwright.batchfile.errors import FileError
from batchwright.batchfile.lines import BYTE_ORDER_MARK, OversizeLine, split_lines
from batchwright.batchfile.request_line import ENVELOPE_BYTES
from batchwright.batchfile.validation import Validator, find_duplicates

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
MODEL = "qwen"
MAX_BODY_BYTES = 10 * 1024 * 1024


def request(custom_id: Any = "a", **changes: Any) -> dict[str, Any]:
    """A good chat request. A field is changed by its name, a field of the body by `body__name`; `...` leaves it out."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
    line = {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}
    for name, value in changes.items():
        place, key = (body, name.removeprefix("body__")) if name.startswith("body__") else (line, name)
        place[key] = value
        if value is ...:
            del place[key]
    if custom_id is ...:
        del line["custom_id"]
    return line


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def good_line(custom_id: Any = "a", **changes: Any) -> bytes:
    return encode(request(custom_id, **changes))


def input_of(*lines: bytes | dict[str, Any]) -> bytes:
    """A file of these lines."""
    return b"".join((line if isinstance(line, bytes) else encode(line)) + b"\n" for line in lines)


def check(
    data: bytes,
    *,
    endpoint: str | None = None,
    model: str | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    chunk_bytes: int = 1 << 20,
    **options: Any,
) -> Validator:
    """Check a whole file, duplicates too, as the plan stage does."""
    validator = Validator(endpoint=endpoint, model=model, max_body_bytes=max_body_bytes, **options)
    if data.startswith(BYTE_ORDER_MARK):
        validator.skip_byte_order_mark(len(BYTE_ORDER_MARK))

    def groups() -> Iterator[list[bytes | OversizeLine]]:
        text = data.removeprefix(BYTE_ORDER_MARK)
        chunks = (text[start : start + chunk_bytes] for start in range(0, len(text), chunk_bytes))
        return split_lines(chunks, max_body_bytes + ENVELOPE_BYTES)

    for group in groups():
        validator.take(group)
    if suspects := validator.suspects():
        validator.errors.add(find_duplicates(groups(), suspects))
    return validator


def errors_of(data: bytes, **options: Any) -> list[FileError]:
    return check(data, **options).errors.listed


def found(data: bytes, **options: Any) -> list[tuple[int | None, str, str | None]]:
    """Line, code and param of every error, in order of lines."""
    listed = errors_of(data, **options)
    return sorted(((error.line, error.code, error.param) for error in listed), key=lambda error: error[0] or 0)
