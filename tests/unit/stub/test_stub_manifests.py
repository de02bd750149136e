"""The manifests of the two model servers: numbers that belong together, and restricted Pod Security."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stub.main import parse_arguments

ROOT = Path(__file__).resolve().parents[3] / "manifests"
STUB = ROOT / "quickstart" / "model-server.yaml"
VLLM = ROOT / "vllm"


def documents(path: Path) -> list[dict[str, Any]]:
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def of_kind(path: Path, kind: str) -> dict[str, Any]:
    (found,) = (document for document in documents(path) if document["kind"] == kind)
    return found


def pod_spec(path: Path) -> dict[str, Any]:
    spec = of_kind(path, "Deployment")["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container(path: Path) -> dict[str, Any]:
    (only,) = pod_spec(path)["containers"]
    assert isinstance(only, dict)
    return only


def flag(path: Path, name: str) -> str:
    (value,) = (text.partition("=")[2] for text in container(path)["args"] if text.startswith(f"--{name}="))
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize(("path", "name"), [(STUB, "model-server"), (VLLM, "vllm")])
def test_the_service_has_its_fixed_name_and_port_and_finds_the_pods(path: Path, name: str) -> None:
    service, deployment = of_kind(path, "Service"), of_kind(path, "Deployment")
    assert service["metadata"]["name"] == deployment["metadata"]["name"] == name
    (port,) = service["spec"]["ports"]
    assert port["port"] == 8000
    ports = {one["name"]: one["containerPort"] for one in container(path)["ports"]}
    assert ports[port["targetPort"]] == int(flag(path, "port"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("path", [STUB, VLLM])
def test_the_pods_are_restricted(path: Path) -> None:
    spec, one = pod_spec(path), container(path)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"]["allowPrivilegeEscalation"] is False
    assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert all(volume.keys() & {"emptyDir", "persistentVolumeClaim"} for volume in spec.get("volumes", []))
    assert spec["automountServiceAccountToken"] is False
    # The address of a Service can pass for a flag: VLLM_PORT, STUB_PORT.
    assert spec["enableServiceLinks"] is False


@pytest.mark.parametrize("path", [STUB, VLLM])
def test_requests_in_flight_get_their_time_before_the_pod_is_killed(path: Path) -> None:
    hook = container(path).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    assert hook[0] == "sleep"
    needed = int(hook[1]) + int(flag(path, "shutdown-timeout"))
    assert needed + 5 <= pod_spec(path)["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("path", [STUB, VLLM])
def test_probes_ask_ports_that_exist_and_none_kills_before_the_start_is_over(path: Path) -> None:
    one = container(path)
    names = {port["name"] for port in one["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert one[probe]["httpGet"]["port"] in names
    assert one["readinessProbe"]["httpGet"] == one["startupProbe"]["httpGet"] == {"path": "/health", "port": "http"}


def test_vllm_may_load_for_half_an_hour() -> None:
    probe = container(VLLM)["startupProbe"]
    loading = probe["periodSeconds"] * probe["failureThreshold"]
    assert loading >= 1800
    assert of_kind(VLLM, "Deployment")["spec"]["progressDeadlineSeconds"] > loading


def test_vllm_drains_as_long_as_a_request_may_take_by_default() -> None:
    assert int(flag(VLLM, "shutdown-timeout")) >= 180


def test_vllm_gives_what_batch_jobs_count_on() -> None:
    arguments = set(container(VLLM)["args"])
    assert {"--enable-prompt-tokens-details", "--enable-request-id-headers"} <= arguments
    assert flag(VLLM, "scheduling-policy") == "priority"
    assert flag(VLLM, "served-model-name")


def test_vllm_keeps_its_caches_on_the_volume_and_has_shared_memory() -> None:
    volumes = {volume["name"]: volume for volume in pod_spec(VLLM)["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container(VLLM)["volumeMounts"]}
    claim = mounts["/cache"]["persistentVolumeClaim"]["claimName"]
    assert claim == of_kind(VLLM, "PersistentVolumeClaim")["metadata"]["name"]
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
    environment = {variable["name"]: variable.get("value", "") for variable in container(VLLM)["env"]}
    assert environment["HF_HOME"].startswith("/cache/")
    assert environment["VLLM_CACHE_ROOT"].startswith("/cache/")


def test_vllm_starts_without_its_optional_secrets() -> None:
    secrets = [one["valueFrom"]["secretKeyRef"] for one in container(VLLM)["env"] if "valueFrom" in one]
    assert secrets
    assert all(secret["optional"] is True for secret in secrets)


def test_the_stub_takes_the_arguments_it_is_given() -> None:
    config = parse_arguments(container(STUB)["args"], {})
    ports = {port["name"]: port["containerPort"] for port in container(STUB)["ports"]}
    assert (config.host, config.port, config.control_port) == ("0.0.0.0", ports["http"], ports["control"])
    assert (config.settings.delay, config.settings.models) == ("0.05", ("stub-model",))
    assert container(STUB)["image"] == "batchwright.local/stub:dev"


def test_the_stub_keeps_its_journal_on_a_volume_that_outlives_its_container() -> None:
    (mount,) = container(STUB)["volumeMounts"]
    assert Path(flag(STUB, "journal")).parent == Path(mount["mountPath"])
    (volume,) = pod_spec(STUB)["volumes"]
    assert volume["name"] == mount["name"]
    assert "emptyDir" in volume
