"""Fields of the spec that this version knows and can't act on yet: it says so, rather than passing over them."""

from batchwright.api.batchjob import BatchJobSpec


def unsupported_field(spec: BatchJobSpec) -> str | None:
    """The first field that is set and has no effect yet, as a problem with its remedy."""
    if spec.output.names is not None and spec.output.names.progress is not None:
        return "spec.output.names.progress: not supported by this version. Leave it out"
    return None
