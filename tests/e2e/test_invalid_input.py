"""An input with errors fails as a whole, names every one of them, and costs nothing."""

import json

from e2e.quickstart import CHAT, Quickstart, chat_line, condition

GOOD = chat_line("good")


def _changed(**changes: object) -> bytes:
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value is not ...}).encode()


def _body(**changes: object) -> dict[str, object]:
    return {key: value for key, value in (GOOD["body"] | changes).items() if value is not ...}


INVALID: tuple[tuple[bytes, str, str | None], ...] = (
    (b"{not json", "invalid_json_line", None),
    (b"[1, 2]", "invalid_json_line", None),
    (b'{"custom_id": NaN}', "invalid_json_line", None),
    (_changed(custom_id=...), "missing_required_parameter", "custom_id"),
    (_changed(custom_id="1", method=...), "missing_required_parameter", "method"),
    (_changed(custom_id="2", url=...), "missing_required_parameter", "url"),
    (_changed(custom_id="3", body=...), "missing_required_parameter", "body"),
    (_changed(custom_id="good"), "duplicate_custom_id", "custom_id"),
    (_changed(custom_id="a", url="/v1/other"), "invalid_url", "url"),
    (_changed(custom_id="b", method="GET"), "invalid_method", "method"),
    (_changed(custom_id=7), "invalid_request", "custom_id"),
    (_changed(custom_id="c", body=_body(model="other")), "mismatched_model", "body.model"),
    (_changed(custom_id="d", body=_body(stream=True)), "streaming_unsupported", "body.stream"),
    (_changed(custom_id="e", body=_body(model=...)), "invalid_request", "body.model"),
    (_changed(custom_id="f", body=_body(messages=...)), "invalid_request", "body.messages"),
)


def test_errors_of_every_kind_are_found_with_their_lines_and_no_request_is_sent(quickstart: Quickstart) -> None:
    lines = [_changed(), *(line for line, _, _ in INVALID)]
    job = quickstart.run(quickstart.name("invalid"), b"\n".join(lines) + b"\n", endpoint=CHAT)
    status = job["status"]
    assert status["phase"] == "failed"
    assert condition(job, "Failed")["reason"] == "InvalidInput"
    found = {(error["code"], error.get("param"), error["line"]) for error in status["validationErrors"]}
    assert found == {(code, param, number) for number, (_, code, param) in enumerate(INVALID, start=2)}
    assert status["validationErrorCount"] == len(INVALID)
    assert quickstart.arrivals() == {}
    listed = quickstart.lines_at(status["validationErrorsURI"])
    assert {(error["code"], error["param"], error["line"]) for error in listed} == found


def test_an_empty_file_is_refused(quickstart: Quickstart) -> None:
    job = quickstart.run(quickstart.name("empty"), b"\n\n")
    assert [error["code"] for error in job["status"]["validationErrors"]] == ["empty_file"]


def test_a_model_that_is_not_served_is_named_with_those_that_are(quickstart: Quickstart) -> None:
    job = quickstart.run(quickstart.name("model"), [chat_line("a", model="gpt-9")])
    failed = condition(job, "Failed")
    assert failed["reason"] == "ModelNotFound"
    assert "gpt-9" in failed["message"]
    assert "stub-model" in failed["message"]
