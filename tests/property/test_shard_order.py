"""Laws of the order of sending, over lines of every kind."""

import json
from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from batchwright.worker.run.shard_order import MAX_NESTING, sending_order

PIECES = [letter * length for letter in "ab" for length in (60, 250, 300, 1000)]
PROMPTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(max_size=20)
LIMITS = st.none() | st.integers(-5, 10_000) | st.booleans() | st.floats() | st.text(max_size=3)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    prompt = draw(PROMPTS)
    body: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"messages": [{"role": "user", "content": prompt}]},
                {"prompt": prompt},
                {"instructions": prompt, "input": "x"},
                {"input": prompt},
                {"tools": [prompt], "messages": []},
                {"messages": prompt},
                {},
            ]
        )
    )
    limits = draw(st.dictionaries(st.sampled_from(["max_tokens", "max_completion_tokens"]), LIMITS))
    return json.dumps(body | limits).encode()


@given(st.lists(bodies() | st.binary(max_size=10), max_size=30))
def test_each_line_has_one_turn(lines: list[bytes]) -> None:
    assert sorted(turn.line for turn in sending_order(lines)) == list(range(len(lines)))


@given(st.lists(bodies(), max_size=30), st.randoms())
def test_affinities_do_not_depend_on_the_files_order(lines: list[bytes], chance: Any) -> None:
    shuffled = list(range(len(lines)))
    chance.shuffle(shuffled)
    before = {turn.line: turn.affinity for turn in sending_order(lines)}
    after = {shuffled[turn.line]: turn.affinity for turn in sending_order([lines[line] for line in shuffled])}
    assert after == before


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=MAX_NESTING - 1), max_size=30))
def test_no_prefix_is_left_and_come_back_to(paths: list[list[str]]) -> None:
    prompts = ["".join(letter * 320 for letter in path) + "?" for path in paths]
    sent = [prompts[turn.line] for turn in sending_order([json.dumps({"prompt": one}).encode() for one in prompts])]
    for length in range(320, 320 * MAX_NESTING, 320):
        prefixes = [prompt[:length] for prompt in sent if len(prompt) > length]
        runs = [prefix for prefix, _ in groupby(prefixes)]
        assert len(runs) == len(set(runs))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_without_common_prefixes_no_line_waits_for_a_shorter_one(limits: list[int]) -> None:
    lines = [json.dumps({"prompt": f"{number}", "max_tokens": limit}).encode() for number, limit in enumerate(limits)]
    sent = [limits[turn.line] for turn in sending_order(lines)]
    assert sent == sorted(limits, reverse=True)
