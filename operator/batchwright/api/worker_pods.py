"""What of its worker pods a BatchJob says itself."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from batchwright.api import rules
from batchwright.api.model import Model
from batchwright.api.references import DNSName, SecretReference

LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=rules.LABEL_VALUE_PATTERN)]
AnnotationValue = Annotated[str, StringConstraints(max_length=16_384)]
PreservedObject = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
PreservedObjects = Annotated[list[PreservedObject], Field(max_length=64)]


class Worker(Model):
    """The worker pods, as far as a user may shape them."""

    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = Field(
        None, description="Image of the workers. Default: the operator's setting, of its own version."
    )
    resources: PreservedObject | None = Field(
        None,
        description="Requests and limits of a worker, as in a container. What is given here replaces the default of the"
        " same name. Default: requests cpu 250m, memory 256Mi, ephemeral-storage 1Gi; limits memory 512Mi,"
        " ephemeral-storage 4Gi.",
    )
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=64)] | None = Field(
        None, description="Labels that a worker's node must have. Default: none."
    )
    tolerations: PreservedObjects | None = Field(None, description="Taints that workers tolerate. Default: none.")
    affinity: PreservedObject | None = Field(None, description="Affinity of workers, as in a pod. Default: none.")
    priority_class_name: DNSName | None = Field(None, description="Priority class of workers. Default: the cluster's.")
    service_account_name: DNSName | None = Field(
        None,
        description="Service account of workers, in the namespace of the BatchJob, for access to storage by"
        " web identity."
        " Workers get no token for the Kubernetes API. Default: default.",
    )
    image_pull_secrets: Annotated[list[SecretReference], Field(max_length=16)] | None = Field(
        None,
        description="Secrets that the worker image is pulled with. Default: those of the service account.",
    )
    volumes: PreservedObjects | None = Field(
        None,
        description="Volumes for file:// URIs, as in a pod. hostPath needs the operator's permission. Default: none.",
    )
    volume_mounts: PreservedObjects | None = Field(
        None, description="Where the volumes are mounted, as in a container. Default: none."
    )
    env: PreservedObjects | None = Field(
        None, description="Environment variables, as in a container, such as HTTPS_PROXY. Default: none."
    )
    labels: Annotated[dict[str, LabelValue], Field(max_length=32)] | None = Field(
        None, description="Labels added to worker pods. Default: none."
    )
    annotations: Annotated[dict[str, AnnotationValue], Field(max_length=32)] | None = Field(
        None, description="Annotations added to worker pods. Default: none."
    )
