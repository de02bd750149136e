from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.identity.buckets import Bucket, take


@given(
    st.lists(st.floats(min_value=0, max_value=100), min_size=1, max_size=60),
    st.floats(min_value=0.01, max_value=50),
    st.integers(min_value=1, max_value=50),
)
def test_never_more_than_the_burst_and_what_came_in(pauses: list[float], per_second: float, burst: int) -> None:
    bucket, now, passed = Bucket(burst, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        bucket, wait = take(bucket, now, per_second, burst)
        passed += not wait
        assert 0 <= bucket.left <= burst
    assert passed <= burst + now * per_second + 1e-6


@given(st.floats(min_value=0, max_value=0.99), st.floats(min_value=0.01, max_value=50))
def test_after_the_wait_there_is_one(left: float, per_second: float) -> None:
    bucket, wait = take(Bucket(left, 0.0), 0.0, per_second, 10)
    assert wait > 0
    assert take(bucket, wait + 1e-6, per_second, 10)[1] == 0


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert take(Bucket(3, 10.0), 5.0, 1, 10) == (Bucket(2, 5.0), 0.0)
