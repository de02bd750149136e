import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.api.batchjob import Output
from batchwright.gateway.resource_server.naming import output_names

NOW = datetime(2026, 3, 1, 12, 30, 5, 678901, tzinfo=UTC)
BATCH = "batch_" + "0123456789abcdef" * 2


def test_the_layout_is_that_of_research_centres() -> None:
    names = output_names("/data/tenants/team-a/prompts.jsonl", "meta-llama/Llama-3.1-8B-Instruct", BATCH, NOW)
    assert names.folder == f"prompts_Llama-3.1-8B-Instruct_{BATCH}"
    assert names.results == "prompts_20260301_123005.results.jsonl"
    assert names.progress == "prompts_20260301_123005.progress.json"
    assert names.errors == "prompts_20260301_123005.errors.jsonl"
    assert names.retry == "prompts_20260301_123005.retry.jsonl"


def test_the_time_is_that_of_utc() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert output_names("in.jsonl", "m", BATCH, elsewhere) == output_names("in.jsonl", "m", BATCH, NOW)


@pytest.mark.parametrize(
    ("path", "model", "begins"),
    [
        ("s3://bucket/in/my.first.input.jsonl", "m", "my.first.input_m_"),
        ("/data/no-extension", "m", "no-extension_m_"),
        ("/data/.hidden", "m", "_hidden_m_"),
        ("/data/.hidden.jsonl", "m", "_hidden_m_"),
        ("/data/...", "m", "_._m_"),
        ("/data/a b.jsonl", "org/a b:7b", "a b_a b:7b_"),
        ("/data/a\\b.jsonl", "a\\b\x07", "a_b_a_b__"),
        ("/data/in.jsonl", "ends/with/", "in_ends_with__"),
        ("/data/größe.jsonl", "m", "größe_m_"),
    ],
)
def test_what_no_file_can_be_called_is_replaced(path: str, model: str, begins: str) -> None:
    assert output_names(path, model, BATCH, NOW).folder == f"{begins}{BATCH}"


@given(st.text(), st.text(min_size=1))
def test_names_are_always_ones_that_a_batchjob_takes_and_a_file_system_has(path: str, model: str) -> None:
    usable = path.encode(errors="ignore").decode(), model.encode(errors="ignore").decode()
    names = output_names(f"/data/{usable[0]}in", usable[1] or "m", BATCH, NOW)
    Output.model_validate({"uri": "file:///data/", **names.spec()})
    for name in (names.folder, *names.spec()["names"].values()):
        assert len(name.encode()) <= 210
        assert re.fullmatch(r"[^./\x00][^/\x00]*", name)
