"""Laws of the choice among a server's addresses, over random histories."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchwright.worker.transport.endpoints import LOAD_FACTOR, Address, Check, Endpoint, Endpoints

ADDRESSES: list[Address] = [(f"10.0.0.{number}",) for number in range(1, 7)]
some_addresses = st.lists(st.sampled_from(ADDRESSES), min_size=1, unique=True)
perhaps_none = st.lists(st.sampled_from(ADDRESSES), unique=True)
affinities = st.none() | st.integers(min_value=-(2**63), max_value=2**64)


class Spreading(RuleBasedStateMachine):
    """Requests come and go, addresses come, go, fail and recover, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints = Endpoints()
        self.now = 0.0
        self.flight: list[Endpoint] = []
        self.vouched = True

    @initialize(addresses=some_addresses)
    def first(self, addresses: list[Address]) -> None:
        self.endpoints.update(addresses, self.now)

    @precondition(lambda self: self.endpoints.usable)
    @rule(affinity=affinities)
    def send(self, affinity: int | None) -> None:
        usable = self.endpoints.usable
        total = sum(one.in_flight for one in usable)
        chosen = self.endpoints.start(affinity, self.now)
        self.flight.append(chosen)
        assert chosen in usable
        assert chosen.listed
        assert chosen.out_since is None
        assert len(usable) == 1 or chosen.in_flight <= LOAD_FACTOR * (total + 1) / len(usable) + 1

    @precondition(lambda self: self.flight)
    @rule(data=st.data(), answered=st.booleans())
    def end(self, data: st.DataObject, answered: bool) -> None:
        one = self.flight.pop(data.draw(st.integers(0, len(self.flight) - 1)))
        self.endpoints.finish(one)
        if answered:
            self.endpoints.hear(one, self.now)
        else:
            self.endpoints.suspect(one)

    @precondition(lambda self: self.endpoints.usable)
    @rule(data=st.data())
    def lose_a_connection(self, data: st.DataObject) -> None:
        self.endpoints.lose(data.draw(st.sampled_from(self.endpoints.usable)), self.now)

    @rule(addresses=perhaps_none)
    def look_up(self, addresses: list[Address]) -> None:
        self.endpoints.update(addresses, self.now)
        self.vouched = bool(addresses)
        assert not addresses or {one.address for one in self.endpoints.listed} == set(addresses)

    @rule(data=st.data(), everyone=st.booleans())
    def check(self, data: st.DataObject, everyone: bool) -> None:
        self.now += 0.001  # what was answered before doesn't count
        asked = self.endpoints.listed if everyone else self.endpoints.suspects(self.now)
        checks = {one: data.draw(st.sampled_from(Check)) for one in asked}
        usable = self.endpoints.usable
        lost = self.endpoints.apply(checks, self.now, self.now)
        assert all(one.in_flight for one in lost)
        assert not set(lost) & set(self.endpoints.usable)
        for one, check in checks.items():
            if check is Check.ALIVE and one.listed:
                assert one in self.endpoints.usable
        if all(checks.get(one, Check.ALIVE) is not Check.ALIVE for one in usable):
            assert Check.ALIVE in checks.values() or not self.vouched or self.endpoints.usable == usable

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def forget(self) -> None:
        assert all(not one.in_flight and not one.listed for one in self.endpoints.remove_drained())

    @invariant()
    def there_is_always_an_address(self) -> None:
        assert not self.endpoints.listed or self.endpoints.usable

    @invariant()
    def each_request_is_counted_once(self) -> None:
        counted = Counter(one.address for one in self.flight)
        assert all(one.in_flight == counted[one.address] for one in self.endpoints.listed)


TestSpreading = Spreading.TestCase


@given(some_addresses, st.lists(st.integers(), min_size=1))
def test_without_load_a_prefix_has_one_home_whatever_the_order_of_the_addresses(
    addresses: list[Address], prefixes: list[int]
) -> None:
    one, other = Endpoints(), Endpoints()
    one.update(addresses, 0.0)
    other.update(reversed(addresses), 0.0)
    for prefix in prefixes:
        assert one.choose(prefix).address == other.choose(prefix).address


@given(some_addresses, st.sampled_from(ADDRESSES), st.lists(st.integers(), min_size=1))
def test_an_address_more_takes_prefixes_and_moves_none_between_the_others(
    addresses: list[Address], added: Address, prefixes: list[int]
) -> None:
    endpoints = Endpoints()
    endpoints.update(addresses, 0.0)
    before = {prefix: endpoints.choose(prefix).address for prefix in prefixes}
    endpoints.update([*addresses, added], 0.0)
    for prefix in prefixes:
        assert endpoints.choose(prefix).address in (before[prefix], added)
