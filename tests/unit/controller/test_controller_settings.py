"""Settings are read and checked once at the start."""

from dataclasses import fields
from datetime import timedelta

import pytest

from batchwright.controller import settings
from batchwright.controller.settings import InvalidSettings, Settings


def test_nothing_set_means_the_defaults() -> None:
    assert Settings.from_environment({"PATH": "/bin", "BATCHWRIGHT_MAX_LINES": ""}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("BATCHWRIGHT_WORKER_IMAGE", "registry/worker:1", "worker_image", "registry/worker:1"),
        ("BATCHWRIGHT_DEFAULT_SERVER_URL", "http://vllm:8000/", "default_server_url", "http://vllm:8000"),
        ("BATCHWRIGHT_MAX_LINES", "50000", "max_lines", 50000),
        ("BATCHWRIGHT_ALLOW_HOST_PATH", "true", "allow_host_path", True),
        ("BATCHWRIGHT_START_DEADLINE", "1m30s", "start_deadline", timedelta(seconds=90)),
        ("BATCHWRIGHT_LOG_LEVEL", "debug", "log_level", "DEBUG"),
        ("BATCHWRIGHT_LEADER_ELECTION", "false", "leader_election", False),
        ("BATCHWRIGHT_LEASE_DURATION", "1m", "lease_duration", timedelta(minutes=1)),
    ],
)
def test_a_variable_is_read(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(Settings.from_environment({variable: text}), field) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("BATCHWRIGHT_DEFAULT_SERVER_URL", "vllm:8000"),
        ("BATCHWRIGHT_MAX_LINES", "many"),
        ("BATCHWRIGHT_MAX_LINES", "0"),
        ("BATCHWRIGHT_ALLOW_HOST_PATH", "perhaps"),
        ("BATCHWRIGHT_START_DEADLINE", "90"),
        ("BATCHWRIGHT_RESYNC_INTERVAL", "0s"),
        ("BATCHWRIGHT_WORKER_USER_ID", "0"),
        ("BATCHWRIGHT_LOG_LEVEL", "LOUD"),
        ("BATCHWRIGHT_WORKER_IMGE", "typo:1"),
    ],
)
def test_what_cannot_be_used_is_named(variable: str, text: str) -> None:
    with pytest.raises(InvalidSettings, match=variable):
        Settings.from_environment({variable: text})


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@vllm:8000",
        "http://vllm:8000/v1?key=hunter2",
        "http://vllm:8000/#hunter2",
        "http://vllm:hunter2",
        "http://vllm:8000/\nhunter2",
    ],
)
def test_a_server_with_more_than_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSettings, match="BATCHWRIGHT_DEFAULT_SERVER_URL") as raised:
        Settings.from_environment({"BATCHWRIGHT_DEFAULT_SERVER_URL": url})
    assert "hunter2" not in str(raised.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(InvalidSettings, match=r"MAX_LINES.*START_DEADLINE"):
        Settings.from_environment({"BATCHWRIGHT_MAX_LINES": "x", "BATCHWRIGHT_START_DEADLINE": "y"})


@pytest.mark.parametrize(
    "times",
    [
        {"DURATION": "4s"},
        {"DURATION": "6m"},
        {"DURATION": "12s"},
        {"RENEW_DEADLINE": "13s"},
        {"RETRY_PERIOD": "6s"},
    ],
)
def test_times_of_the_lease_that_do_not_fit_each_other_are_refused(times: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="BATCHWRIGHT_LEASE_"):
        Settings.from_environment({f"BATCHWRIGHT_LEASE_{name}": text for name, text in times.items()})


def test_what_kubernetes_sets_for_services_is_no_setting() -> None:
    Settings.from_environment({"BATCHWRIGHT_OPERATOR_METRICS_SERVICE_HOST": "10.0.0.1"})
    Settings.from_environment({"BATCHWRIGHT_OPERATOR_METRICS_PORT_9090_TCP_ADDR": "10.0.0.1"})


def test_every_setting_has_a_variable_of_its_own() -> None:
    variables = {name: field for name, (field, _) in settings._variables().items()}
    assert variables == {f"BATCHWRIGHT_{item.name.upper()}": item.name for item in fields(Settings)}
