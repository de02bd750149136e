from pathlib import Path

import pytest

from batchwright.storage.credentials import FileCredentials
from batchwright.storage.errors import MissingCredentials


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "secret", AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")


def test_files_are_read_without_the_newline_that_editors_add(folder: Path) -> None:
    write(folder, AWS_SECRET_ACCESS_KEY="secret\n", AWS_SESSION_TOKEN=" token\n")
    frozen = FileCredentials(folder).get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key, frozen.token) == ("key", "secret", "token")


@pytest.mark.parametrize("token", [None, "", "\n"])
def test_a_session_token_is_optional(folder: Path, token: str | None) -> None:
    if token is not None:
        write(folder, AWS_SESSION_TOKEN=token)
    assert FileCredentials(folder).get_frozen_credentials().token is None


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_missing_or_empty_key_is_named(folder: Path, name: str, text: str | None) -> None:
    (folder / name).unlink()
    if text is not None:
        write(folder, **{name: text})
    with pytest.raises(MissingCredentials, match=f"{folder}.*{name}"):
        FileCredentials(folder)


def test_an_error_shows_no_secret(folder: Path) -> None:
    (folder / "AWS_ACCESS_KEY_ID").unlink()
    write(folder, AWS_SECRET_ACCESS_KEY="very-secret")
    with pytest.raises(MissingCredentials) as caught:
        FileCredentials(folder)
    assert "very-secret" not in str(caught.value)


def test_changed_files_are_read_again(folder: Path) -> None:
    credentials = FileCredentials(folder)
    write(folder, AWS_SECRET_ACCESS_KEY="rotated", AWS_SESSION_TOKEN="token")
    frozen = credentials.get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key, frozen.token) == ("key", "rotated", "token")


def test_keys_are_never_mixed_although_the_secret_is_swapped_between_two_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet's layout: links to files in `..data`, itself a link that is replaced."""
    mount = tmp_path / "mount"
    mount.mkdir()
    for version in ("old", "new"):
        write(mount / f"..{version}", AWS_ACCESS_KEY_ID=version, AWS_SECRET_ACCESS_KEY=version)
    (mount / "..data").symlink_to("..old")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (mount / name).symlink_to(f"..data/{name}")
    read_text = Path.read_text

    def read_then_swap(path: Path) -> str:
        text = read_text(path)
        (mount / "..data").unlink()
        (mount / "..data").symlink_to("..new")
        return text

    monkeypatch.setattr(Path, "read_text", read_then_swap)
    credentials = FileCredentials(mount)
    assert {credentials.access_key, credentials.secret_key} == {"old"}
    frozen = credentials.get_frozen_credentials()
    assert {frozen.access_key, frozen.secret_key} == {"new"}


def test_a_half_written_rotation_keeps_the_last_good_keys(folder: Path) -> None:
    credentials = FileCredentials(folder)
    write(folder, AWS_ACCESS_KEY_ID="rotated", AWS_SECRET_ACCESS_KEY="")
    frozen = credentials.get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key) == ("key", "secret")
    write(folder, AWS_SECRET_ACCESS_KEY="rotated too")
    frozen = credentials.get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key) == ("rotated", "rotated too")
