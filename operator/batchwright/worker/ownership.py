"""Taking an output: one BatchJob alone writes under `<output>/<folder>/`, whatever cluster it is in."""

import logging
from typing import Final

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.batchfile.owner_record import LOCAL_CLUSTER, OwnerRecord
from batchwright.batchfile.plan_record import RecordError, decode_record, encode_record
from batchwright.storage.errors import PreconditionFailed
from batchwright.storage.protocol import FetchedObject
from batchwright.worker.existing import find
from batchwright.worker.failures import StageFailed, final, passing
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

TRIES: Final = 3
"""Each one that fails has met another writer's record, so the second mostly tells whose it is."""


def take_output(stage: Stage, *, exclusive: bool) -> None:
    """Write the record of the owner, or find it written. To be called before anything else is written there.

    A BatchJob that is applied again has another UID and takes over from the one before it. `exclusive`: the store
    honours conditional PUT; on another one two that begin at the same moment may both get through.

    Raises:
        StageFailed: the output is another BatchJob's.
        RecordError: the record can't be read.
        StorageError: the storage refuses or is away.
    """
    mine = _owner_to_be(stage)
    for _ in range(TRIES):
        standing = _standing(stage)
        if standing is not None:
            owner = _owner(stage, standing)
            if owner == mine:
                return
            if owner.identity != mine.identity:
                raise _owned_by(stage, owner)
            logger.info("taking the output over from the BatchJob of the same name with the UID %s", owner.uid)
        try:
            _write(stage, mine, standing, exclusive=exclusive)
        except PreconditionFailed:
            continue  # another writer's, or one's own whose answer got lost
        return
    uri = stage.output_store.uri(stage.layout.owner)
    raise passing(Reason.UNEXPECTED, f"The record {uri} changes all the time: others begin to use this output too.")


def require_output(stage: Stage) -> None:
    """Make sure that no other BatchJob has taken the output over since. A record that was deleted by hand is nobody's.

    Raises:
        StageFailed: the output is another BatchJob's, or one's that was applied again.
        RecordError: the record can't be read.
        StorageError: the storage refuses or is away.
    """
    standing = _standing(stage)
    if standing is not None and (owner := _owner(stage, standing)) != _owner_to_be(stage):
        raise _owned_by(stage, owner)


def _owner_to_be(stage: Stage) -> OwnerRecord:
    metadata = stage.job.batchjob.metadata
    return OwnerRecord(stage.job.cluster or LOCAL_CLUSTER, metadata.namespace, metadata.name, metadata.uid)


def _standing(stage: Stage) -> FetchedObject | None:
    if find(stage.output_store, stage.layout.owner) is None:
        return None
    return stage.output_store.fetch(stage.layout.owner)


def _owner(stage: Stage, standing: FetchedObject) -> OwnerRecord:
    try:
        return decode_record(standing.data, OwnerRecord)
    except RecordError as error:
        uri = stage.output_store.uri(stage.layout.owner)
        raise RecordError(f"{uri} doesn't tell whose output this is: {error}. Use another output.") from error


def _write(stage: Stage, mine: OwnerRecord, standing: FetchedObject | None, *, exclusive: bool) -> None:
    key, data = stage.layout.owner, encode_record(mine)
    if not exclusive:
        stage.output_store.write(key, data)
    elif standing is None:
        stage.output_store.write(key, data, if_none_match=True)
    else:
        stage.output_store.write(key, data, if_match=standing.info.etag)


def _owned_by(stage: Stage, owner: OwnerRecord) -> StageFailed:
    store, layout = stage.output_store, stage.layout
    apart = "name" if stage.job.batchjob.spec.output.folder is None else "folder"
    return final(
        ExitCode.STORAGE_REFUSED,
        Reason.OUTPUT_OWNED_BY_ANOTHER,
        f"{store.uri(layout.prefix)} is the output of {owner}, as {store.uri(layout.owner)} says. Give this BatchJob"
        f" another output or another {apart}; or, when that BatchJob is gone for good, delete this record.",
    )
