"""Random kills of operator, workers, model server and storage while BatchJobs run: the short form of `make chaos`.

The seed is printed. The same one again: BATCHWRIGHT_CHAOS_SEED=n.
"""

import os
import time

import pytest

from chaos.round import play
from chaos.schedule import SHORT, make_schedule
from e2e.quickstart import Quickstart

SEED = "BATCHWRIGHT_CHAOS_SEED"


@pytest.mark.timeout(900)
def test_whatever_is_killed_every_line_is_published_once(quickstart: Quickstart) -> None:
    seed = int(os.environ.get(SEED) or time.time())
    name = quickstart.name("chaos")
    schedule = make_schedule(seed, SHORT, name)
    result = play(schedule, quickstart.cluster.kubeconfig, name, seconds=480, tick=1.0)
    assert not result.violations, f"{SEED}={seed}\n" + "\n".join(result.violations)
    # Without kills this would be a test of nothing.
    assert {kill.target for kill in result.history.kills} == set(SHORT.kills)
