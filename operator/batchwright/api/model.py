"""The base of every model of the resource: camelCase on the wire, unknown fields refused, values frozen."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A part of the resource. Absent and null mean the same, as in Kubernetes."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_enum_values=False,
    )


class TolerantModel(Model):
    """A part that a program writes, maybe one of another version: fields that this version doesn't know are dropped."""

    model_config = Model.model_config | {"extra": "ignore"}
