"""The outcomes of a line; they live in `worker.server.verdicts`."""

from batchwright.worker.server.verdicts import Answered, Failed, Outcome

__all__ = ["Answered", "Failed", "Outcome"]
