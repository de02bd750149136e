"""Which server a batch goes to: by its model, and by cluster and framework where the client names them.

Where there is a catalogue it alone counts: a model that isn't in it is unknown, even if some server has it. Without
one every batch goes to the default server, which is asked for the model when the input is checked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from batchwright.api.batchjob import Endpoint, Server
from batchwright.gateway import errors
from batchwright.gateway.catalogue import Catalogue, CatalogueEntry
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError

_NAMED: Final = 50
"""Names that a message lists, at most."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a batch goes."""

    server: Server | None
    """None: the operator's default."""
    cluster: str
    framework: str
    endpoints: tuple[Endpoint, ...] = tuple(Endpoint)
    """What the server serves of the model."""


class UnknownModel(ApiError):  # noqa: N818
    """No entry of the catalogue has the model. The message names those that take batches."""

    def __init__(self, model: str, known: Iterable[str]) -> None:
        super().__init__(
            HTTPStatus.NOT_FOUND,
            f"The model '{errors.shown_id(model)}' does not exist. {_these('Models that take batches', known)}",
            code="model_not_found",
            param="model",
        )


def choose(
    gateway: Gateway,
    *,
    model: str | None,
    endpoint: str | None,
    cluster: str | None = None,
    framework: str | None = None,
) -> Choice:
    """The server for a batch.

    model: None where it isn't known yet, since the input's first line names none. Such an input fails its validation,
        for which any server will do: the default one.
    endpoint: None where the lines will say.
    cluster, framework: None for whichever serves the model, the first in the catalogue.

    Raises:
        UnknownModel: 404, the catalogue doesn't have it.
        ApiError: 400 for an unknown cluster or framework, a model that takes no batches or isn't there, an endpoint
            that isn't served. Each names what would work.
    """
    catalogue = gateway.catalogue()
    if catalogue is None:
        return _default(gateway, cluster, framework)
    there = _in_place(catalogue, cluster, framework)
    if model is None:
        settings = gateway.settings
        return Choice(
            settings.default_server, cluster or settings.default_cluster, framework or settings.default_framework
        )
    entry = _serving(_of_model(catalogue, there, model), model, endpoint)
    return Choice(entry.server, entry.cluster, entry.framework, tuple(entry.endpoints))


def _default(gateway: Gateway, cluster: str | None, framework: str | None) -> Choice:
    settings = gateway.settings
    for name, asked, known in (
        ("cluster", cluster, settings.default_cluster),
        ("framework", framework, settings.default_framework),
    ):
        if asked not in (None, known):
            raise _unknown(name, str(asked), [known])
    return Choice(settings.default_server, settings.default_cluster, settings.default_framework)


def _in_place(catalogue: Catalogue, cluster: str | None, framework: str | None) -> list[CatalogueEntry]:
    """The entries of a cluster and framework. Raises ApiError where none takes batches."""
    there = catalogue.models
    if cluster is not None:
        there = [entry for entry in there if entry.cluster == cluster]
        if not _with_batch(there):
            raise _unknown("cluster", cluster, (entry.cluster for entry in catalogue.with_batch()))
    if framework is not None:
        known = [entry.framework for entry in _with_batch(there)]
        there = [entry for entry in there if entry.framework == framework]
        if framework not in known:
            raise _unknown("framework", framework, known)
    return there


def _of_model(catalogue: Catalogue, there: list[CatalogueEntry], model: str) -> list[CatalogueEntry]:
    """The entries of a model that take batches, of those that are where it is asked for."""
    entries = _with_batch(entry for entry in there if entry.model == model)
    if entries:
        return entries
    here = _these("Models that take batches", (entry.model for entry in _with_batch(there)))
    if any(entry.model == model for entry in there):
        raise _not_possible(f"The model '{model}' takes no batches. {here}")
    elsewhere = _with_batch(catalogue.named(model))
    if elsewhere:
        places = (f"{entry.cluster}/{entry.framework}" for entry in elsewhere)
        raise _not_possible(f"The model '{model}' is not there. {_these('It takes batches at', places)}")
    raise UnknownModel(model, (entry.model for entry in _with_batch(there)))


def _serving(entries: list[CatalogueEntry], model: str, endpoint: str | None) -> CatalogueEntry:
    for entry in entries:
        if endpoint is None or endpoint in entry.endpoints:
            return entry
    served = (one.value for entry in entries for one in entry.endpoints)
    message = f"The model '{model}' doesn't serve '{errors.shown_id(str(endpoint))}'. {_these('It serves', served)}"
    raise errors.invalid_value("endpoint", message)


def _with_batch(entries: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
    return [entry for entry in entries if entry.batch]


def _unknown(what: str, asked: str, known: Iterable[str]) -> ApiError:
    message = f"Unknown {what} '{errors.shown_id(asked)}'. {_these(f'{what.capitalize()}s that take batches', known)}"
    return errors.invalid_value(what, message)


def _not_possible(message: str) -> ApiError:
    return errors.invalid_value("model", message)


def _these(heading: str, names: Iterable[str]) -> str:
    """`Heading: 'a', 'b'.`, each once, in their order."""
    each = list(dict.fromkeys(names))
    if not each:
        return f"{heading}: none."
    more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
    return f"{heading}: {', '.join(repr(name) for name in each[:_NAMED])}{more}."
