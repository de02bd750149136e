from typing import Any

import pytest

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.models.choosing import UnknownModel, choose
from batchwright.gateway.settings import Settings

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"


def entry(model: str, cluster: str = "polaris", framework: str = "vllm", **fields: Any) -> dict[str, Any]:
    url = f"http://{framework}.{cluster}:8000"
    return {"model": model, "cluster": cluster, "framework": framework, "server": {"url": url}, **fields}


CATALOGUE = Catalogue.model_validate(
    {
        "models": [
            entry("llama"),
            entry("llama", "sophia"),
            entry("llama", "sophia", "sglang", endpoints=[EMBEDDINGS]),
            entry("qwen", "sophia", endpoints=[EMBEDDINGS]),
            entry("shy", batch=False),
            entry("shy-alone", "metis", batch=False),
        ]
    }
)


class Chooser:
    """`choose` over settings and a catalogue, the only parts of a gateway that it reads."""

    def __init__(self, catalogue: Catalogue | None, **settings: Any) -> None:
        self.settings = Settings.model_validate({"batchPath": "s3://batches/", **settings})
        self._catalogue = catalogue

    def catalogue(self) -> Catalogue | None:
        return self._catalogue

    def __call__(self, model: str | None, endpoint: str | None = None, **place: Any) -> str:
        gateway: Gateway = self  # type: ignore[assignment]
        choice = choose(gateway, model=model, endpoint=endpoint, **place)
        return f"{choice.cluster}/{choice.framework} {choice.server.url if choice.server else None}"


@pytest.mark.parametrize(
    ("model", "endpoint", "place", "chosen"),
    [
        ("llama", None, {}, "polaris/vllm http://vllm.polaris:8000"),
        ("llama", CHAT, {"cluster": "sophia"}, "sophia/vllm http://vllm.sophia:8000"),
        ("llama", None, {"cluster": "sophia", "framework": "sglang"}, "sophia/sglang http://sglang.sophia:8000"),
        ("llama", EMBEDDINGS, {"framework": "sglang"}, "sophia/sglang http://sglang.sophia:8000"),
        ("qwen", EMBEDDINGS, {}, "sophia/vllm http://vllm.sophia:8000"),
    ],
)
def test_the_first_entry_that_serves_what_is_asked_for_is_chosen(
    model: str, endpoint: str | None, place: dict[str, str], chosen: str
) -> None:
    assert Chooser(CATALOGUE)(model, endpoint, **place) == chosen


@pytest.mark.parametrize(
    ("model", "endpoint", "place", "param", "message"),
    [
        ("shy", None, {}, "model", "The model 'shy' takes no batches. Models that take batches: 'llama', 'qwen'."),
        ("qwen", CHAT, {}, "endpoint", f"The model 'qwen' doesn't serve '{CHAT}'. It serves: '{EMBEDDINGS}'."),
        (
            "llama",
            None,
            {"cluster": "aurora"},
            "cluster",
            "Unknown cluster 'aurora'. Clusters that take batches: 'polaris', 'sophia'.",
        ),
        (
            "shy-alone",
            None,
            {"cluster": "metis"},
            "cluster",
            "Unknown cluster 'metis'. Clusters that take batches: 'polaris', 'sophia'.",
        ),
        (
            "llama",
            None,
            {"cluster": "polaris", "framework": "sglang"},
            "framework",
            "Unknown framework 'sglang'. Frameworks that take batches: 'vllm'.",
        ),
        (
            "qwen",
            None,
            {"cluster": "polaris"},
            "model",
            "The model 'qwen' is not there. It takes batches at: 'sophia/vllm'.",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(
    model: str, endpoint: str | None, place: dict[str, str], param: str, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        Chooser(CATALOGUE)(model, endpoint, **place)
    assert (caught.value.status, caught.value.param, caught.value.message) == (400, param, message)


@pytest.mark.parametrize("place", [{}, {"cluster": "polaris"}])
def test_a_model_that_no_entry_has_is_unknown(place: dict[str, str]) -> None:
    with pytest.raises(
        UnknownModel, match=r"The model 'gpt' does not exist\. Models that take batches: 'llama'"
    ) as seen:
        Chooser(CATALOGUE)("gpt", **place)
    assert (seen.value.status, seen.value.code) == (404, "model_not_found")


def test_an_empty_catalogue_takes_nothing() -> None:
    with pytest.raises(UnknownModel, match="Models that take batches: none"):
        Chooser(Catalogue())("llama")


def test_a_catalogue_leaves_nothing_to_the_default_server() -> None:
    with pytest.raises(UnknownModel):
        Chooser(CATALOGUE, defaultServer={"url": "http://default:8000"})("gpt")


def test_without_a_catalogue_the_default_server_takes_everything() -> None:
    chooser = Chooser(None, defaultServer={"url": "http://default:8000"}, defaultCluster="here")
    assert chooser("anything", CHAT) == "here/vllm http://default:8000"
    assert chooser(None, None, cluster="here", framework="vllm") == "here/vllm http://default:8000"
    assert Chooser(None)("anything") == "local/vllm None"


@pytest.mark.parametrize("place", [{"cluster": "polaris"}, {"cluster": "local", "framework": "sglang"}])
def test_without_a_catalogue_only_the_default_names_are_known(place: dict[str, str]) -> None:
    with pytest.raises(ApiError, match=r"Unknown (cluster|framework) .* that take batches: '(local|vllm)'\."):
        Chooser(None)("anything", **place)


def test_an_input_that_names_no_model_goes_to_the_default_server_to_be_refused_there() -> None:
    assert Chooser(CATALOGUE, defaultServer={"url": "http://default:8000"})(None) == "local/vllm http://default:8000"


def test_what_is_repeated_in_a_message_is_cut_and_printable() -> None:
    with pytest.raises(UnknownModel) as caught:
        Chooser(CATALOGUE)("\x1b[31m" + "m" * 500)
    assert "\x1b" not in caught.value.message
    assert "m" * 101 not in caught.value.message
