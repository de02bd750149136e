"""What must hold at every moment that is seen: terminal states absorb, and counts of live BatchJobs never shrink."""

from chaos.observation import Job, Snapshot


class Watch:
    """Compares what is seen with what was seen before."""

    def __init__(self) -> None:
        self._last: dict[str, Job] = {}
        """By UID."""

    def see(self, seen: Snapshot) -> list[str]:
        """What is wrong with a new snapshot."""
        found = []
        for job in seen.jobs.values():
            before = self._last.get(job.uid)
            if before is not None:
                found += _wrong(before, job)
            self._last[job.uid] = job
        return found


def _wrong(before: Job, now: Job) -> list[str]:
    if before.terminal and now.phase != before.phase:
        return [f"{now.name} was {before.phase} and is {now.phase}"]
    # At the end the counts are exact: what a worker had told of and lost may be missing from them.
    if not now.terminal and now.done < before.done:
        return [f"{now.name} had {before.done} requests done and has {now.done}, in {now.phase}"]
    return []
