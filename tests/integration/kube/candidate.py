"""A process that takes part in an election until SIGTERM: `candidate.py NAMESPACE LEASE DURATION DEADLINE PERIOD`.

While it leads, it writes the moments at which it did so on its output, all on the machine's one clock.
"""

import signal
import sys
import threading
import time

from batchwright.election.candidate import Timing
from batchwright.election.leadership import Leadership, boot_time, identity_of
from batchwright.kube.connection import Connection, TimeLimits
from batchwright.kube.leases import LeaseObject

EVERY_SECONDS = 0.05


def main(namespace: str, name: str, duration: str, deadline: str, period: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    timing = Timing(float(duration), float(deadline), float(period))
    connection = Connection.open(connections=1, time_limits=TimeLimits(1, 2), retries=False)
    part = Leadership(LeaseObject(connection, namespace, name), identity_of({}), timing)
    part.start(lambda: None)
    while not stop.is_set():
        now = boot_time()
        if part.leads():
            print(now, flush=True)
        time.sleep(EVERY_SECONDS)
    part.release(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
