"""The order of sending: common prefixes side by side, the longest first, and which lines belong to one replica."""

import json
from typing import Any

import pytest

from batchwright.worker.run.shard_order import sending_order

LONG = "You are a careful judge of essays. Give marks from 1 to 6, and say why. " * 10
OTHER = "You write unit tests for functions that you are shown, in the style of pytest. " * 10


def order(*bodies: dict[str, Any]) -> list[int]:
    return [turn.line for turn in sending_order([json.dumps(body).encode() for body in bodies])]


def affinities(*bodies: dict[str, Any]) -> list[int | None]:
    """In the order of the bodies."""
    turns = sending_order([json.dumps(body).encode() for body in bodies])
    return [turn.affinity for turn in sorted(turns)]


def chat(system: str, question: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "m", "messages": messages, **more}


def ask(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": question}], **more}


def few_shots(examples: str, question: str) -> dict[str, Any]:
    shots = [{"role": "user", "content": examples}, {"role": "assistant", "content": "4"}]
    return {"messages": [*shots, {"role": "user", "content": question}]}


def tool(description: str, question: str) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", "description": description}}], **ask(question)}


@pytest.mark.parametrize(
    "make",
    [
        chat,
        few_shots,
        tool,
        lambda prefix, rest: ask(prefix + rest),
        lambda prefix, rest: {"prompt": prefix + rest},
        lambda prefix, rest: {"prompt": [*map(ord, prefix), *map(ord, rest)]},
        lambda prefix, rest: {"instructions": prefix, "input": rest},
        lambda prefix, rest: {"input": [{"role": "system", "content": prefix}, {"role": "user", "content": rest}]},
        lambda prefix, rest: {"model": "m", "query": prefix, "documents": [rest]},
        lambda prefix, rest: {"model": "m", "text_1": prefix, "text_2": [rest]},
        lambda prefix, rest: {"messages": chat(prefix, rest)["messages"], "temperature": len(rest), "model": rest},
    ],
    ids=[
        "system prompt",
        "few shots",
        "tools",
        "one message",
        "completions",
        "completions of token ids",
        "responses with instructions",
        "responses with messages",
        "rerank",
        "score",
        "other parameters differ",
    ],
)
def test_lines_with_a_common_prefix_are_sent_side_by_side(make: Any) -> None:
    prefixes = [LONG, OTHER, LONG, OTHER, LONG, OTHER]
    bodies = [make(prefix, f"{number} is the question") for number, prefix in enumerate(prefixes)]
    sent = order(*bodies)
    assert [prefixes[number] for number in sent] in ([LONG] * 3 + [OTHER] * 3, [OTHER] * 3 + [LONG] * 3)
    found = affinities(*bodies)
    assert found[0] == found[2] == found[4] != found[1] == found[3] == found[5]
    assert None not in found


def test_groups_within_a_group_stay_together() -> None:
    bodies = [
        ask(top + inner + str(number))
        for number, (inner, top) in enumerate(
            (inner, top) for inner in (LONG, OTHER, "?") for top in ("A" * 400, "B" * 400)
        )
        for _ in range(2)
    ]
    sent = [bodies[number]["messages"][0]["content"] for number in order(*bodies)]
    for length in (400, 800):
        prefixes = [text[:length] for text in sent]
        runs = [one for one, before in zip(prefixes, [None, *prefixes], strict=False) if one != before]
        assert len(runs) == len(set(runs)), "a prefix is left and come back to"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_longest_is_sent_first(name: str) -> None:
    assert order(*(ask("Hello", **{name: limit}) for limit in (10, 300, 20, 100))) == [1, 3, 2, 0]


def test_without_a_limit_the_longest_prompt_is_sent_first() -> None:
    assert order(ask("a" * 50), ask("b" * 200), ask("c" * 100)) == [1, 2, 0]


def test_a_limit_counts_before_the_length_of_the_prompt() -> None:
    assert order(ask("a" * 900, max_tokens=10), ask("b", max_tokens=2000), ask("c" * 4000)) == [1, 2, 0]


def test_what_is_alike_keeps_the_files_order() -> None:
    assert order(*(ask("Hello", max_tokens=5) for _ in range(5))) == [0, 1, 2, 3, 4]


def test_groups_go_by_their_longest_line_and_within_them_the_longest_goes_first() -> None:
    bodies = [
        chat(LONG, "a", max_tokens=50),
        ask("alone", max_tokens=200),
        chat(OTHER, "b", max_tokens=10),
        chat(LONG, "c", max_tokens=100),
        chat(OTHER, "d", max_tokens=300),
    ]
    assert order(*bodies) == [4, 2, 1, 3, 0]


@pytest.mark.parametrize("other", ["one alone", "too little in common"])
def test_a_line_that_shares_nothing_has_no_affinity(other: str) -> None:
    assert affinities(ask("Why is the sky blue?"), ask("Why is the grass green?"), ask(LONG)) == [None, None, None]


def test_an_affinity_is_the_same_in_another_shard() -> None:
    one = affinities(chat(LONG, "What is this?"), chat(LONG, "What is that?"), ask("x"))
    another = affinities(ask("y"), chat(LONG, "Who are you, and where do you go?"), chat(LONG, "?"), chat(OTHER, "?"))
    assert one[0] == one[1] == another[1] == another[2]


def test_an_affinity_is_the_same_in_every_process() -> None:
    assert affinities({"prompt": "a" * 500 + "b"}, {"prompt": "a" * 500 + "c"}) == [13889971181572869661] * 2


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"not json",
        b'{"messages": ',
        b'{"max_tokens": "many"}',
        b'{"max_tokens": 1.5}',
        b'{"max_tokens": -1}',
        b"{}",
    ],
)
def test_a_body_that_the_server_will_refuse_has_its_turn_too(body: bytes) -> None:
    turns = sending_order([json.dumps(ask("Hello")).encode(), body])
    assert sorted(turns) == [(0, None), (1, None)]


def test_a_shard_without_lines() -> None:
    assert sending_order([]) == []
