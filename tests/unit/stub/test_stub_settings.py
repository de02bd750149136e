"""The switches of the whole server: merged field by field, refused as a whole where one is wrong."""

import pytest

from stub.errors import SwitchError
from stub.main import parse_arguments
from stub.settings import Settings


def test_a_change_leaves_the_other_settings_alone() -> None:
    settings = Settings(slots=4, delay="0").merged({"slots": None, "queue": 7, "models": ["a", "b"]})
    assert (settings.slots, settings.queue, settings.delay, settings.models) == (None, 7, "0", ("a", "b"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"slot": 4}, "unknown field `slot`"),
        ({"slots": 0}, r">= 1 - at `\$.slots`"),
        ({"slots": "4"}, r"`\$.slots`"),
        ({"queue": -1}, r"`\$.queue`"),
        ({"queue_status": 200}, r"`\$.queue_status`"),
        ({"health": 99}, r"`\$.health`"),
        ({"idle_close": 0}, r"`\$.idle_close`"),
        ({"kv_cache_usage": 1.5}, r"`\$.kv_cache_usage`"),
        ({"api_keys": [""]}, r"`\$.api_keys\[0\]`"),
        ({"delay": "soon"}, "not a number of seconds"),
        ({"requests": "stauts=503"}, "unknown switch"),
        ({"requests": "status=500,times=1;reset=before_read"}, "must be the only step"),
    ],
)
def test_a_setting_at_fault_is_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(SwitchError, match=complaint):
        Settings().merged(changes)


def test_keys_are_never_shown() -> None:
    settings = Settings(api_keys=("secret-1", "secret-2"))
    assert settings.shown()["api_keys"] == 2
    assert "secret" not in str(settings.shown())


def test_flags_win_over_variables_and_both_over_the_defaults() -> None:
    environment = {"STUB_PORT": "9000", "STUB_CONTROL_PORT": "9001", "STUB_DELAY": "0", "STUB_API_KEY": "a,b"}
    config = parse_arguments(["--port", "9100", "--served-model-name", "m,n", "--slots", "8"], environment)
    assert (config.port, config.control_port) == (9100, 9001)
    assert config.settings == Settings(delay="0", api_keys=("a", "b"), models=("m", "n"), slots=8)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--switches", "[1]"], "not a JSON object"),
        (["--switches", "{"], "not JSON"),
        (["--switches", '{"drian": true}'], "unknown field `drian`"),
        (["--requests", "stauts=503"], "unknown switch"),
    ],
)
def test_a_bad_start_is_refused_with_its_cause(arguments: list[str], complaint: str) -> None:
    with pytest.raises(SwitchError, match=complaint):
        parse_arguments(arguments, {})
