"""Ids that stand twice are found, and the line that had each first is named."""

import pytest

from batchwright.batchfile import custom_ids, validation
from batchwright.batchfile.custom_ids import IdDigests, digest_of
from batchwright.batchfile.errors import FileError
from unit.batchfile.builders import check, errors_of, found, good_line, input_of, request


def duplicates(data: bytes) -> list[tuple[int | None, str]]:
    return [(error.line, error.message) for error in errors_of(data) if error.code == "duplicate_custom_id"]


def message(custom_id: str, line: int) -> str:
    return f"The custom_id '{custom_id}' is used already in line {line}: each must be unique."


def test_every_later_line_names_the_first() -> None:
    data = input_of(*(good_line(custom_id) for custom_id in "abacaba"))
    assert duplicates(data) == [(3, message("a", 1)), (5, message("a", 1)), (6, message("b", 2)), (7, message("a", 1))]


def test_blank_lines_count_in_the_numbers() -> None:
    data = b"\xef\xbb\xbf" + input_of(b"", good_line("a"), b" ", b"", good_line("a"))
    assert duplicates(data) == [(5, message("a", 2))]


def test_ids_are_compared_as_text_and_not_as_bytes() -> None:
    data = input_of(good_line("é"), good_line("x").replace(b'"x"', rb'"\u00e9"'))
    assert duplicates(data) == [(2, message("é", 1))]


@pytest.mark.parametrize("other", ["A", "a ", "", "á"])
def test_ids_that_differ_in_anything_are_no_duplicates(other: str) -> None:
    assert duplicates(input_of(good_line("a"), good_line(other))) == []


def test_a_duplicate_on_a_line_with_another_error_is_found() -> None:
    data = input_of(good_line("a"), request("a", method="GET"), request("a", body__stream=True), request("a", url=3))
    assert duplicates(data) == [(line, message("a", 1)) for line in (2, 3, 4)]


def test_a_duplicate_of_a_line_with_another_error_is_found() -> None:
    data = input_of(good_line("x"), request("a", body=None), good_line("a"))
    assert duplicates(data) == [(3, message("a", 2))]


def test_a_line_that_is_no_json_has_no_id() -> None:
    cut = good_line("a")[:-1]
    skipped = good_line("a").replace(b'"Hello"', b"1e400")
    data = input_of(good_line("a"), cut, skipped, good_line("a"))
    assert duplicates(data) == [(4, message("a", 1))]


def test_a_line_that_is_no_json_is_not_the_first_to_have_an_id() -> None:
    skipped = good_line("a").replace(b'"Hello"', b'"\xff"')
    assert duplicates(input_of(skipped, good_line("a"), good_line("a"))) == [(3, message("a", 2))]


def test_ids_that_are_none_are_no_duplicates() -> None:
    assert duplicates(input_of(*(request(value) for value in (None, None, 1, 1, "", "", "x" * 513, "x" * 513)))) == []


def test_a_long_id_is_cut_in_the_message() -> None:
    ((_, text),) = duplicates(input_of(good_line("x" * 512), good_line("x" * 512)))
    assert "x" * 200 + "…'" in text
    assert "x" * 201 not in text


def test_equal_digests_of_different_ids_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_ids, "hash", lambda custom_id: 0, raising=False)
    data = input_of(*(good_line(custom_id) for custom_id in "abcb"))
    assert check(data).suspects() == {0}
    assert found(data) == [(4, "duplicate_custom_id", "custom_id")]


def test_a_good_file_is_not_read_again() -> None:
    validator = check(input_of(*(good_line(str(number)) for number in range(2000))))
    assert validator.suspects() == set()


def test_a_second_reading_of_lines_that_changed_finds_nothing() -> None:
    assert list(validation.find_duplicates([[b"x", good_line("a"), b""]], {digest_of("a")})) == []


def test_suspects_are_exactly_the_digests_that_came_twice() -> None:
    ids = [str(number) for number in range(10_000)]
    repeated = ids[::7]
    made = IdDigests()
    for custom_id in [*ids, *repeated, *repeated[:5]]:
        made.add(custom_id)
    assert made.suspects() == {digest_of(custom_id) for custom_id in repeated}


def test_suspects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_ids, "MAX_SUSPECTS", 100)
    made = IdDigests()
    for custom_id in map(str, [*range(10_000), *range(10_000)]):
        made.add(custom_id)
    assert 100 <= len(made.suspects()) < 200


def test_an_error_of_a_duplicate_has_a_param() -> None:
    assert errors_of(input_of(good_line("a"), good_line("a"))) == [
        FileError("duplicate_custom_id", message("a", 1), 2, "custom_id")
    ]
