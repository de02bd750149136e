"""Files as OpenAI's clients read them: every key is always there."""

from typing import Literal

from pydantic import BaseModel, Field

from batchwright.gateway.records.file_record import FileRecord


class FileObject(BaseModel):
    """A file."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int = Field(description="Unix time in seconds.")
    filename: str
    purpose: str = Field(description="`batch` for inputs, `batch_output` for what a batch published.")
    status: Literal["processed"] = Field(description="A file can be used as soon as it is there.")
    expires_at: int | None = Field(description="Unix time in seconds; null: it is kept until it is deleted.")
    status_details: None


class FileList(BaseModel):
    """A page of files."""

    object: Literal["list"]
    data: list[FileObject]
    first_id: str | None
    last_id: str | None = Field(description="To be sent as `after` for the next page.")
    has_more: bool


class FileDeleted(BaseModel):
    """A file that is no more."""

    id: str
    object: Literal["file"]
    deleted: bool


def file_object(record: FileRecord) -> FileObject:
    """The object that stands for a record."""
    return FileObject(
        id=record.id,
        object="file",
        bytes=record.bytes,
        created_at=int(record.created_at.timestamp()),
        filename=record.filename,
        purpose=record.purpose,
        status="processed",
        expires_at=None if record.expires_at is None else int(record.expires_at.timestamp()),
        status_details=None,
    )


def file_list(records: list[FileRecord], *, has_more: bool) -> FileList:
    """A page of records, in their order."""
    ids = [record.id for record in records]
    return FileList(
        object="list",
        data=[file_object(record) for record in records],
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=has_more,
    )
