"""The catalogue as OpenAI's list of models. Pure."""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from batchwright.gateway.catalogue import Catalogue, CatalogueEntry

CREATED: Final = 0
"""A catalogue doesn't say when a model was made, and every replica must say the same."""


class Place(BaseModel):
    """Where a model is served."""

    cluster: str
    framework: str
    endpoints: list[str]
    batch: bool


class ModelObject(BaseModel):
    """A model as OpenAI's clients know it; the rest is beyond OpenAI, and absent where a server's own list is shown."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    batch: bool | None = None
    places: list[Place] | None = None


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


def models_of(catalogue: Catalogue) -> list[ModelObject]:
    """Each model once, in the catalogue's order, with all the places that serve it."""
    by_model: dict[str, list[CatalogueEntry]] = {}
    for entry in catalogue.models:
        by_model.setdefault(entry.model, []).append(entry)
    return [_model(name, entries) for name, entries in by_model.items()]


def _model(name: str, entries: list[CatalogueEntry]) -> ModelObject:
    return ModelObject(
        id=name,
        object="model",
        created=CREATED,
        owned_by=entries[0].framework,
        batch=any(entry.batch for entry in entries),
        places=[_place(entry) for entry in entries],
    )


def _place(entry: CatalogueEntry) -> Place:
    endpoints = [endpoint.value for endpoint in entry.endpoints]
    return Place(cluster=entry.cluster, framework=entry.framework, endpoints=endpoints, batch=entry.batch)
