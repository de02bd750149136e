"""How often requests may be sent twice: what a kill can cost, and no more.

A worker keeps what it finished in segments, one every five seconds. So a worker that dies loses what is in flight and
what it finished since its last segment; a server that dies loses what is in flight there. A worker that is asked to
leave waits for what is in flight. Nothing is lost by the death of the operator, the API server or the storage, but a
storage that is away lengthens the time since the last segment.
"""

from collections.abc import Iterable
from math import ceil

from chaos.records import History, Outage
from chaos.script import Action, Manner, Script, Target

SEGMENT_SECONDS = 5.0
WRITE_SECONDS = 5.0
"""A segment takes so long to be written, at most, where the storage is not away: on a busy machine."""
FAREWELL_SECONDS = 20.0
"""A worker that was asked to leave has written what it finished after so many seconds, at most."""


def allowance(script: Script, history: History) -> int:
    """So many requests of a BatchJob may have been sent more than once."""
    lost = 0
    for kill in history.kills:
        workers = kill.workers.get(script.name, 0)
        if not workers:
            continue
        match kill.target, kill.manner:
            case Target.MODEL_SERVER, _:
                lost += workers * script.concurrency
            case _, Manner.EVICT:
                lost += workers * _asked_to_leave(script, kill.at, history.storage_outages)
            case _:
                lost += workers * (script.concurrency + _segment(script, kill.at, history.storage_outages))
    for step in history.steps:
        if step.job == script.name and step.live:
            lost += script.workers * _cost_of_step(script, step.action, step.at, history.storage_outages)
    return lost


def _cost_of_step(script: Script, action: Action, at: float, outages: Iterable[Outage]) -> int:
    match action:
        case Action.RESUME:
            return 0
        case Action.APPLY_AGAIN:
            # Workers of the one that was deleted may still write while those of the next one read.
            return script.concurrency + _segment(script, at, outages)
        case _:
            return _asked_to_leave(script, at, outages)


def _asked_to_leave(script: Script, at: float, outages: Iterable[Outage]) -> int:
    """In good order nothing is lost, unless the server or the storage is away just then."""
    away = sum(outage.within(at - SEGMENT_SECONDS, at + FAREWELL_SECONDS) for outage in outages)
    return script.concurrency + (_finished_in(script, SEGMENT_SECONDS + away) if away else 0)


def _segment(script: Script, at: float, outages: Iterable[Outage]) -> int:
    """Lines that one worker finishes between two segments."""
    usual = SEGMENT_SECONDS + WRITE_SECONDS
    away = sum(outage.within(at - usual - outage.seconds, at) for outage in outages)
    return _finished_in(script, usual + away)


def _finished_in(script: Script, seconds: float) -> int:
    return ceil(script.concurrency / script.delay * seconds)
