"""API keys: their form, what is kept of them, and which of them open something."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.identity.api_keys import (
    RANDOM_BYTES,
    KeyEntry,
    NewKey,
    decode_entries,
    decode_entry,
    encode_entry,
    find_key,
    is_api_key,
    new_key,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RANDOM = bytes(range(RANDOM_BYTES))


def key_of(random: bytes = RANDOM, **changes: Any) -> NewKey:
    return new_key(random, **({"namespace": "team-a", "user": "alice", "admin": False, "now": NOW} | changes))


def stored(**changes: Any) -> bytes:
    """An entry with fields changed; "absent" leaves one out."""
    fields = json.loads(encode_entry(key_of().entry)) | changes
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


def test_a_keys_text_is_made_of_its_id_and_its_secret() -> None:
    assert key_of().text == "bw-000102030405-BgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCU"
    assert key_of().id == "000102030405"


def test_what_is_kept_is_a_hash_of_the_text_and_whom_the_key_is_for() -> None:
    key = key_of()
    assert json.loads(encode_entry(key.entry)) == {
        "hash": hashlib.sha256(key.text.encode()).hexdigest(),
        "namespace": "team-a",
        "user": "alice",
        "admin": False,
        "created_at": "2026-03-01T12:00:00Z",
    }


def test_a_key_does_not_print_itself() -> None:
    assert key_of().text not in repr(key_of())


@given(st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES))
def test_a_new_key_is_found_by_its_text_and_its_entry_survives_storage(random: bytes) -> None:
    key = key_of(random)
    assert is_api_key(key.text)
    assert find_key({key.id: decode_entry(encode_entry(key.entry))}, key.text) == key.entry


WRONG = {
    "empty": "",
    "the prefix alone": "bw-",
    "another secret": key_of().text[:-1] + "A",
    "cut": key_of().text[:-1],
    "longer": key_of().text + "A",
    "a newline behind it": key_of().text + "\n",
    "another id": key_of().text.replace("000102030405", "000102030406"),
    "the id in capitals": key_of(bytes([0xAB] * RANDOM_BYTES)).text.upper(),
    "the hash in place of the secret": f"bw-{key_of().id}-{key_of().entry.hash[:43]}",
    "no ASCII": f"bw-000102030405-{'é' * 43}",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_another_text_opens_nothing(text: str) -> None:
    assert find_key({key_of().id: key_of().entry}, text) is None


def test_a_key_opens_nothing_under_another_keys_id() -> None:
    other = key_of(bytes(reversed(RANDOM)))
    assert find_key({key_of().id: other.entry, other.id: key_of().entry}, key_of().text) is None


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no namespace": ({"namespace": None}, "belongs to a namespace"),
    "an administrator's with a namespace": ({"admin": True}, "belongs to no namespace"),
    "a namespace with a dot": ({"namespace": "team.a"}, "can't be the name of a namespace"),
    "a namespace that leads away": ({"namespace": "../team-b"}, "can't be the name of a namespace"),
    "a namespace with a newline": ({"namespace": "team-a\n"}, "can't be the name of a namespace"),
    "a namespace that is too long": ({"namespace": "a" * 64}, "can't be the name of a namespace"),
    "no user": ({"user": ""}, "user's name"),
    "a user with a newline": ({"user": "alice\nroot"}, "user's name"),
    "a user that is too long": ({"user": "a" * 254}, "user's name"),
    "blanks around the user": ({"user": " alice"}, "user's name"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=list(REFUSED))
def test_whom_no_key_can_be_for(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        key_of(**changes)


def test_a_key_of_too_little_randomness_is_not_made() -> None:
    with pytest.raises(ValueError, match="38 random bytes"):
        key_of(RANDOM[1:])


DAMAGED = {
    "empty": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "not UTF-8": b"\xff",
    "a field that is missing": stored(hash="absent"),
    "a field that nobody knows": stored(role="owner"),
    "a hash that is none": stored(hash="abc"),
    "admin as text": stored(admin="true"),
    "an administrator with a namespace": stored(admin=True),
    "no namespace": stored(namespace=None),
    "a namespace that leads away": stored(namespace="../b"),
    "a time without a zone": stored(created_at="2026-03-01T12:00:00"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_entry_is_named_and_the_others_work(data: bytes) -> None:
    key = key_of()
    entries, damaged = decode_entries({key.id: encode_entry(key.entry), "ffffffffffff": data})
    assert (entries, damaged) == ({key.id: key.entry}, ["ffffffffffff"])


def test_an_administrators_key_has_no_namespace() -> None:
    entry: KeyEntry = key_of(namespace=None, admin=True).entry
    assert decode_entry(encode_entry(entry)) == entry
    assert entry.admin
    assert entry.namespace is None
