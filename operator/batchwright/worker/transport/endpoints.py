"""Which address of a server gets a request, and which gets none for a while. Pure: the time is passed in.

Requests of one affinity go to one address while that has no more than its share of the load, and then to the next
one of their own order: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam: arXiv 1608.01350), with
rendezvous hashing in place of the ring. Everything else goes where the least is in flight.

An address is taken out when a check fails while another one is in use. The last one is never taken out: that
the whole server is away is for the caller to find.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from math import inf
from typing import Final

Address = tuple[str, ...]
"""IP addresses over which one and the same replica is reached: one, or one of each family."""

LOAD_FACTOR: Final = 1.25
"""An affinity is kept up to so many times the mean load, and one request more."""

SILENCE_SECONDS: Final = 5.0
"""With requests in flight, an address from which nothing came for so long is checked."""

DRAIN_SECONDS: Final = 60.0
"""What is in flight to an address that the name no longer stands for is given up after so long a silence. Its replica
stops in good order, perhaps: it accepts no connections any more, and ends what it has. One that died shows by its
connections, which end; within about half a minute even where its node is gone (see `aiohttp_transport`)."""

CHECK_SECONDS, LONGEST_CHECK_SECONDS = 1.0, 10.0
"""Pause between the checks of an address that fails them: it doubles from the first to the last."""

TIMEOUTS_IN_A_ROW: Final = 3
"""An overloaded server answers late, so that a check that timed out proves little."""

_MASK: Final = 2**64 - 1


class Check(Enum):
    """What asking an address for its health has shown."""

    ALIVE = auto()
    REFUSING = auto()
    """No connection, or an answer that says that it can't serve."""
    SILENT = auto()
    """No answer in time."""


@dataclass(slots=True, eq=False)
class Endpoint:
    """One address and what is known of it. Times are those of the caller's clock, in seconds."""

    address: Address
    seed: int
    in_flight: int = 0
    turn: int = 0
    """Grows with each choice: among equally loaded ones the one that has waited longest is next."""
    heard: float = 0.0
    """When the last sign of life came, or the first request went out after none had been in flight."""
    answered: float = -inf
    """When the last answer to a request came."""
    listed: bool = True
    """Whether the name still stands for it. Else it gets nothing more, and what is in flight ends in its time."""
    out_since: float | None = None
    suspected: bool = False
    failures: int = 0
    """Checks failed in a row."""
    next_check: float = 0.0


class Endpoints:
    """The addresses of one server."""

    def __init__(self, silence_seconds: float = SILENCE_SECONDS, check_seconds: float = CHECK_SECONDS) -> None:
        self._silence = silence_seconds
        self._pause = check_seconds
        self._known: dict[Address, Endpoint] = {}
        self._vouched = True
        self._turn = 0
        self.usable: Sequence[Endpoint] = ()
        """Those that get requests. Empty only as long as no address is known."""

    @property
    def listed(self) -> list[Endpoint]:
        """Those that the name stands for, in use or not."""
        return [one for one in self._known.values() if one.listed]

    # Which addresses there are

    def update(self, addresses: Iterable[Address], now: float) -> list[Endpoint]:
        """Take over what a lookup has found; gives those that are new.

        A name that stands for nothing at the moment leaves the known addresses in use, each until it fails:
        the replicas may be gone, and their addresses belong to others soon.
        """
        found = list(dict.fromkeys(addresses))
        self._vouched = bool(found)
        if not found:
            return []
        new = [Endpoint(address, _seed(address), heard=now) for address in found if address not in self._known]
        self._known |= {one.address: one for one in new}
        for address, one in self._known.items():
            one.listed = address in found
        self._refresh()
        return new

    def remove_drained(self) -> list[Endpoint]:
        """Forget those that the name no longer stands for and to which nothing is in flight any more."""
        drained = [one for one in self._known.values() if not one.listed and not one.in_flight]
        for one in drained:
            del self._known[one.address]
        return drained

    # Requests

    def start(self, affinity: int | None, now: float) -> Endpoint:
        """Choose an address for a request and count it there.

        Raises:
            LookupError: no address is known.
        """
        chosen = self.choose(affinity)
        self._turn += 1
        chosen.turn = self._turn
        if not chosen.in_flight:
            chosen.heard = now
        chosen.in_flight += 1
        return chosen

    def choose(self, affinity: int | None) -> Endpoint:
        """The address that a request would get.

        Raises:
            LookupError: no address is known.
        """
        usable = self.usable
        if len(usable) == 1:
            return usable[0]
        if not usable:
            raise LookupError("no address is known")
        if affinity is not None:
            most = LOAD_FACTOR * (sum(one.in_flight for one in usable) + 1) / len(usable)  # before this request
            home = max(usable, key=lambda one: _rank(affinity, one.seed))
            if home.in_flight <= most:
                return home
            by_rank = sorted(usable, key=lambda one: _rank(affinity, one.seed), reverse=True)
            return next(one for one in by_rank if one.in_flight <= most)  # the least loaded one always is
        return min(usable, key=lambda one: (one.in_flight, one.turn))

    def finish(self, endpoint: Endpoint) -> None:
        """A request no longer counts as in flight."""
        endpoint.in_flight -= 1

    def hear(self, endpoint: Endpoint, now: float) -> None:
        """An answer to a request has come, of whatever kind."""
        endpoint.heard = endpoint.answered = now

    def suspect(self, endpoint: Endpoint) -> None:
        """A request gave reason to check the address."""
        endpoint.suspected = True

    def lose(self, endpoint: Endpoint, now: float) -> None:
        """No connection could be made. Further requests would fail as fast, and an address that fails fast has
        little in flight, so it'd draw all of them: it is taken out before the check."""
        endpoint.suspected = True
        if not self._vouched:
            endpoint.listed = False
        elif endpoint.out_since is None and any(one is not endpoint for one in self.usable):
            endpoint.out_since = now
        self._refresh()

    # Checks

    def suspects(self, now: float) -> list[Endpoint]:
        """Those that should be checked now; none where there is no other one to turn to."""
        if len(self._known) == 1:
            return []
        return [one for one in self._known.values() if now >= one.next_check and self._is_suspect(one, now)]

    def _is_suspect(self, one: Endpoint, now: float) -> bool:
        if not one.listed and not one.in_flight:
            return False
        return one.suspected or one.out_since is not None or self._is_silent(one, now)

    def _is_silent(self, one: Endpoint, now: float) -> bool:
        return one.in_flight > 0 and now - one.heard >= self._silence

    def apply(self, checks: Mapping[Endpoint, Check], began: float, now: float) -> list[Endpoint]:
        """Take over the results of checks that began at `began`; gives those whose requests in flight are lost.

        They are lost once nothing has come from an address for a while that refuses new connections, or has
        let several checks in a row time out. One that is no longer listed gets much more time: that it takes no
        new connections says nothing about what it has. Where no address would be left that seems well, nothing changes.
        """
        failing: list[Endpoint] = []
        for one, check in checks.items():
            one.next_check = now + self._pause
            if check is Check.ALIVE or (check is Check.SILENT and one.answered >= began):
                one.heard, one.out_since, one.suspected, one.failures = now, None, False, 0
            else:
                failing.append(one)
                # Where the name stands for nothing, even the last one goes.
                one.listed = one.listed and (self._vouched or check is Check.SILENT)
        self._refresh()
        if not any(one not in failing and self._seems_well(one, began) for one in self.usable):
            return []
        return [one for one in failing if self._take_out(one, checks[one], now)]

    def _seems_well(self, one: Endpoint, began: float) -> bool:
        """Whether nothing spoke against an address when a check of others began, or has been refuted since.

        Each is checked for itself. Where all fall silent at a time, the first to fail must not leave its load to the
        rest.
        """
        return not one.suspected and not (one.in_flight and began - one.heard >= self._silence)

    def _take_out(self, one: Endpoint, check: Check, now: float) -> bool:
        """Whether what is in flight is lost."""
        one.failures += 1
        one.out_since = now if one.out_since is None else one.out_since
        self._refresh()
        if one.in_flight:
            certain = one.failures >= TIMEOUTS_IN_A_ROW or (check is Check.REFUSING and one.listed)
            return certain and now - one.heard >= (self._silence if one.listed else DRAIN_SECONDS)
        one.next_check = now + min(self._pause * 2.0 ** min(one.failures - 1, 8), LONGEST_CHECK_SECONDS)
        return False

    def _refresh(self) -> None:
        listed = self.listed
        usable = [one for one in listed if one.out_since is None]
        if not usable:
            # Those in use are no longer listed. One that was taken out is better than none.
            for one in listed:
                one.out_since = None
            usable = listed
        self.usable = tuple(usable)


def _seed(address: Address) -> int:
    """The same in every worker, so that all of a job's workers send a prefix to the same replica."""
    return int.from_bytes(blake2b(" ".join(address).encode(), digest_size=8).digest())


def _rank(affinity: int, seed: int) -> int:
    """Evenly distributed for each pair: the finalizer of MurmurHash3."""
    mixed = (affinity ^ seed) & _MASK
    mixed = ((mixed ^ (mixed >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    mixed = ((mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return mixed ^ (mixed >> 33)
