"""Asking the server which models it serves, before any request is sent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.worker.failures import final, passing
from batchwright.worker.stage import Stage, open_server
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.protocol import Answer

logger = logging.getLogger(__name__)

MODELS_PATH: Final = "/v1/models"
PATIENCE_SECONDS: Final = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
ANSWER_SECONDS: Final = 10.0
_HTTP_OK, _HTTP_NOT_FOUND, _HTTP_UNAUTHORIZED, _HTTP_FORBIDDEN = 200, 404, 401, 403


class _Model(Struct):
    id: str


class _ModelList(Struct):
    data: list[_Model]


async def served_models(
    stage: Stage,
    *,
    patience: float = PATIENCE_SECONDS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> frozenset[str] | None:
    """Ids of the models that the server lists; None where it has no such list.

    A server that is away is asked again for `patience` seconds.

    Raises:
        StageFailed: the server refuses the key (final), or stays away (it may come back).
    """
    waited, pause = 0.0, FIRST_PAUSE
    while True:
        try:
            return _read(await _ask(stage), stage.job.server_url)
        except (TransportError, _Away) as error:
            if waited >= patience:
                raise passing(
                    Reason.SERVER_UNREACHABLE,
                    f"The model server at {stage.job.server_url} does not answer: {error}."
                    " Start it, or correct spec.server; the BatchJob goes on by itself.",
                ) from error
            logger.info("the model server is away, asking again in %.1f s: %s", pause, error)
        await sleep(pause)
        waited, pause = waited + pause, min(pause * 2, LONGEST_PAUSE)


class _Away(Exception):  # noqa: N818
    """The server answers, but not yet with its models."""


async def _ask(stage: Stage) -> Answer:
    transport = open_server(stage)
    try:
        return await transport.get(MODELS_PATH, headers=stage.api_key.headers(), timeout=ANSWER_SECONDS)
    finally:
        await transport.close()


def _read(answer: Answer, server_url: str) -> frozenset[str] | None:
    if answer.status == _HTTP_NOT_FOUND:
        return None
    if answer.status in (_HTTP_UNAUTHORIZED, _HTTP_FORBIDDEN):
        raise final(
            ExitCode.SERVER_REFUSED,
            Reason.SERVER_UNAUTHORIZED,
            f"The model server at {server_url} refuses the API key ({answer.status})."
            " Put the right key into the Secret of spec.server.apiKeySecretRef and create the BatchJob anew.",
        )
    if answer.status != _HTTP_OK:
        raise _Away(f"{MODELS_PATH} answered {answer.status}")
    models = read_models(answer)
    if models is None:
        raise _Away(f"{MODELS_PATH} answered with something else than a list of models")
    return models


def read_models(answer: Answer) -> frozenset[str] | None:
    """Ids of the models in a list; None where it is none."""
    try:
        models = msgspec.json.decode(answer.body, type=_ModelList)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return frozenset(model.id for model in models.data)
