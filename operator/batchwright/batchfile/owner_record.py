"""Who writes under an output: two BatchJobs there would overwrite each other's results."""

from typing import Final

from msgspec import Struct

from batchwright.batchfile.plan_record import FORMAT_VERSION

LOCAL_CLUSTER: Final = "local"
"""Stands for the cluster of a run that has none."""


class OwnerRecord(Struct, frozen=True, tag_field="record", tag="owner"):
    """The BatchJob that has `<output>/<folder>/`. `uid` is empty for a run without a cluster."""

    cluster: str
    namespace: str
    name: str
    uid: str = ""
    version: int = FORMAT_VERSION

    @property
    def identity(self) -> tuple[str, str, str]:
        """What stays when the BatchJob is deleted and applied again."""
        return self.cluster, self.namespace, self.name

    def __str__(self) -> str:
        where = "a run without a cluster" if self.cluster == LOCAL_CLUSTER else f"the cluster {self.cluster}"
        return f"BatchJob {self.namespace}/{self.name} of {where}"
