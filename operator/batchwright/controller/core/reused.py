"""What stands from an earlier BatchJob, in a sentence, and apart from what this one did."""

from batchwright.api.status import BatchJobStatus


def requests(status: BatchJobStatus) -> int:
    """Requests that were not sent again."""
    return status.reused.completed + status.reused.failed if status.reused is not None else 0


def tokens(status: BatchJobStatus) -> int:
    """Tokens of the answers that stand, as far as the server had reported them."""
    usage = status.reused.usage if status.reused is not None else None
    return (usage.total_tokens if usage is not None else None) or 0


def sentence(status: BatchJobStatus) -> str:
    """For people; empty where nothing stands."""
    number = requests(status)
    if not number:
        return ""
    total = status.request_counts.total if status.request_counts is not None else number
    return f"{number} of {total} requests stand from an earlier BatchJob of this name."
