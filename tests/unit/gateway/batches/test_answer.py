"""Batches as text: scripts cut fields out with grep, whatever their owner called the keys of metadata."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.batches import schema
from batchwright.gateway.batches.answer import BatchJSON
from batchwright.gateway.batches.rendering import batch_of, failed_state
from batchwright.gateway.records.batch_record import BatchError, BatchState
from fixtures.batch_records import BATCH_ID, CREATED, record

FIELDS = ["id", "status", "output_file_id", "error_file_id", "input_file_id", "model", "code", "message", "completed"]
KEYS = st.sampled_from([*FIELDS, "metadata", "team", 'my "id', '"status', '\\"id', '"id": "b']) | st.text(max_size=12)
VALUES = st.sampled_from(['"id": "x"', '", "id": "x', "}\n  }", "id"]) | st.text(max_size=12)
METADATA = st.dictionaries(KEYS, VALUES, max_size=16)
STATES = st.sampled_from(
    [
        BatchState("validating"),
        failed_state(record(), CREATED, BatchError("model_not_found", 'the "id": "x" is wrong', "id", 1)),
    ]
)


def text_of(content: Any) -> str:
    return bytes(BatchJSON(content).body).decode()


def found(text: str, field: str) -> list[str]:
    """What `grep -o '"field": *"[^"]*"'` prints."""
    return re.findall(rf'"{field}": *"[^"\n]*"', text)


def times_found(text: str) -> dict[str, int]:
    """How often a script finds each field, of whatever type it is."""
    return {field: len(re.findall(rf'"{field}": *', text)) for field in FIELDS}


@given(STATES, METADATA)
def test_metadata_hides_no_field_and_makes_no_second_one(state: BatchState, metadata: dict[str, str]) -> None:
    batch = batch_of(record(metadata=metadata), state)
    text = text_of(batch)

    assert found(text, "id") == [f'"id": "{BATCH_ID}"']
    assert found(text, "status") == [f'"status": "{state.status}"']
    assert times_found(text) == times_found(text_of(batch | {"metadata": None}))


@given(STATES, METADATA)
def test_to_a_json_parser_it_is_the_same(state: BatchState, metadata: dict[str, str]) -> None:
    batch = batch_of(record(metadata=metadata), state)

    assert json.loads(text_of(batch)) == batch
    assert json.loads(text_of({"data": [batch, batch]})) == {"data": [batch, batch]}


@given(METADATA)
def test_in_a_list_of_one_each_is_there_once_too(metadata: dict[str, str]) -> None:
    batch = batch_of(record(metadata=metadata), BatchState("validating"))
    page = {"object": "list", "data": [batch], "first_id": BATCH_ID, "last_id": BATCH_ID, "has_more": False}
    text = text_of(page)

    assert found(text, "id") == [f'"id": "{BATCH_ID}"']
    assert found(text, "first_id") == [f'"first_id": "{BATCH_ID}"']
    assert times_found(text) == times_found(text_of(page | {"data": [batch | {"metadata": None}]}))


@pytest.mark.parametrize("field", [*schema.Batch.model_fields, *schema.BatchErrorObject.model_fields, "total"])
def test_a_key_with_the_name_of_a_field_is_written_with_an_escape(field: str) -> None:
    text = text_of({"metadata": {field: "theirs"}})

    assert f'"\\u{ord(field[0]):04x}{field[1:]}": "theirs"' in text


def test_other_keys_are_written_as_they_are() -> None:
    assert '"team/ä": "docs"' in text_of({"metadata": {"team/ä": "docs"}})


def test_each_field_has_a_line() -> None:
    lines = text_of(batch_of(record(), BatchState("validating"))).splitlines()

    assert f'  "id": "{BATCH_ID}",' in lines
    assert '  "status": "validating",' in lines
