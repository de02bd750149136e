from batchwright.gateway.identity.ttl_cache import TtlCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_value_is_kept_for_its_time_and_no_longer() -> None:
    clock = Clock()
    cache: TtlCache[str, int] = TtlCache(2, clock=clock)
    cache.put("a", 1, 10)
    clock.now = 9.9
    assert cache.get("a") == 1
    clock.now = 10
    assert cache.get("a") is None


def test_reading_does_not_make_it_last_longer() -> None:
    clock = Clock()
    cache: TtlCache[str, int] = TtlCache(2, clock=clock)
    cache.put("a", 1, 10)
    for clock.now in (3.0, 6.0, 9.0):
        assert cache.get("a") == 1
    clock.now = 10
    assert cache.get("a") is None


def test_of_too_many_the_least_used_goes() -> None:
    cache: TtlCache[str, int] = TtlCache(2, clock=Clock())
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    assert cache.get("a") == 1
    cache.put("c", 3, 10)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
