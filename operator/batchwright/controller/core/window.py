"""The completion window: from creation on, whatever the BatchJob waits for."""

from datetime import datetime

from batchwright.api.batchjob import BatchJobSpec
from batchwright.controller.core.observed import Observed


def expires_at(observed: Observed, spec: BatchJobSpec | None) -> datetime | None:
    """The end of the completion window; None where it never ends, or can't be read."""
    if spec is None or spec.completion_window is None:
        return None
    try:
        return observed.identity.created_at + spec.completion_window
    except OverflowError:
        return None
