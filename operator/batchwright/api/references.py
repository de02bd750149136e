"""References to Secrets and ConfigMaps of a BatchJob's namespace."""

from typing import Annotated

from pydantic import Field, StringConstraints

from batchwright.api import rules
from batchwright.api.model import Model

DNSName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=rules.DNS_NAME_PATTERN)]
ObjectKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class SecretReference(Model):
    """A Secret of the BatchJob's namespace."""

    name: DNSName = Field(description="Name of the Secret, in the namespace of the BatchJob.")


class SecretKeyReference(Model):
    """One key of a Secret of the BatchJob's namespace."""

    name: DNSName = Field(description="Name of the Secret, in the namespace of the BatchJob.")
    key: ObjectKey | None = Field(None, description="Key of the Secret that holds the value. Default: api-key.")


class ConfigMapKeyReference(Model):
    """One key of a ConfigMap of the BatchJob's namespace."""

    name: DNSName = Field(description="Name of the ConfigMap, in the namespace of the BatchJob.")
    key: ObjectKey | None = Field(None, description="Key of the ConfigMap that holds PEM text. Default: ca.crt.")
