import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.form import UploadForm, usable_filename

ANCHOR = ("expires_after[anchor]", "created_at")


def form_of(*fields: tuple[str, str]) -> UploadForm:
    form = UploadForm()
    for name, value in fields:
        form.add(name, value.encode())
    form.check()
    return form


def test_a_purpose_is_enough() -> None:
    form = form_of(("purpose", "batch"))
    assert (form.purpose, form.expires_after) == ("batch", None)


@pytest.mark.parametrize("seconds", ["3600", "2592000", "03600"])
def test_an_expiry_is_from_an_hour_to_thirty_days(seconds: str) -> None:
    form = form_of(("expires_after[seconds]", seconds), ANCHOR, ("purpose", "batch"))
    assert form.expires_after == int(seconds)


def test_unknown_fields_are_passed_over() -> None:
    assert form_of(("purpose", "batch"), ("user", "x")).purpose == "batch"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ([], "missing_required_parameter", "purpose"),
        ([("purpose", "fine-tune")], "invalid_value", "purpose"),
        ([("purpose", "batch_output")], "invalid_value", "purpose"),
        ([("purpose", "")], "invalid_value", "purpose"),
        ([("purpose", "batch"), ("purpose", "batch")], "invalid_value", "purpose"),
        ([("purpose", "batch"), ANCHOR], "missing_required_parameter", "expires_after[seconds]"),
        (
            [("purpose", "batch"), ("expires_after[seconds]", "3600")],
            "missing_required_parameter",
            "expires_after[anchor]",
        ),
        ([("expires_after[anchor]", "last_active_at")], "invalid_value", "expires_after[anchor]"),
        ([("expires_after", '{"seconds": 3600}')], "invalid_value", "expires_after"),
        *(
            ([("expires_after[seconds]", seconds)], code, "expires_after[seconds]")
            for seconds, code in [
                ("3599", "invalid_value"),
                ("2592001", "invalid_value"),
                ("0", "invalid_value"),
                ("-3600", "invalid_type"),
                ("3600.0", "invalid_type"),
                ("1e4", "invalid_type"),
                ("٣٦٠٠", "invalid_type"),
                ("", "invalid_type"),
                ("9" * 5000, "invalid_type"),
            ]
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(fields: list[tuple[str, str]], code: str, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        form_of(*fields)
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, code, param)


def test_another_purpose_is_answered_with_what_is_supported() -> None:
    with pytest.raises(ApiError, match="Supported values are: 'batch'"):
        form_of(("purpose", "assistants"))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "upload"),
        ("", "upload"),
        ("  ", "upload"),
        ("..", "upload"),
        ("in/", "upload"),
        ("requests", "requests"),
        ("a.jsonl", "a.jsonl"),
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\a.jsonl", "a.jsonl"),
        ("Größe – 数.jsonl", "Größe – 数.jsonl"),
        ("数" * 255, "数" * 255),
    ],
)
def test_a_file_is_shown_under_its_name_without_folders(given: str | None, shown: str) -> None:
    assert usable_filename(given) == shown


@pytest.mark.parametrize("given", ["a" * 256, "a\nb", "a\x00b", "\x7fa", "a\x85b", "tab\there"])
def test_overlong_names_and_control_characters_are_refused(given: str) -> None:
    with pytest.raises(ApiError) as refused:
        usable_filename(given)
    assert (refused.value.status, refused.value.param) == (400, "file")
