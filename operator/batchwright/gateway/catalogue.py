"""The catalogue: which models there are, where each is served, and whether batches may use it."""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from batchwright.api.batchjob import Endpoint, Server
from batchwright.api.model import Model

Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class CatalogueEntry(Model):
    """One model on one server."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=512)] = Field(
        description="Name that requests name it by."
    )
    server: Server = Field(description="As spec.server of a BatchJob.")
    cluster: Name = Field(description="Cluster in the path-based routes.")
    framework: Name = Field("vllm", description="Framework in the path-based routes. Default: vllm.")
    endpoints: Annotated[list[Endpoint], Field(min_length=1)] = Field(
        default_factory=lambda: list(Endpoint), description="API paths that it serves. Default: all."
    )
    batch: bool = Field(True, description="Whether batches may use it. Default: true.")


class Catalogue(Model):
    """The models, in the order in which they are listed."""

    models: list[CatalogueEntry] = Field(default_factory=list, description="The models.")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        seen: set[tuple[str, str, str]] = set()
        for entry in self.models:
            place = (entry.model, entry.cluster, entry.framework)
            if place in seen:
                raise ValueError(f"{entry.model!r} stands twice for {entry.cluster}/{entry.framework}")
            seen.add(place)
        return self

    def named(self, model: str) -> Iterator[CatalogueEntry]:
        """The entries of a model."""
        return (entry for entry in self.models if entry.model == model)

    def with_batch(self) -> list[CatalogueEntry]:
        """The entries that batches may use."""
        return [entry for entry in self.models if entry.batch]
