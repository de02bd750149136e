"""Schemathesis against a running gateway: whatever its OpenAPI document allows, and much that it doesn't, no answer is
a 5xx, and each is as the document says.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from fixtures.gateway import ALICE, bearer, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi

EXAMPLES = 40
"""Requests of each operation, of each kind: such as the document allows, and such as it doesn't."""
# Left out: that every request which the document allows is taken. It can't say which paths are a tenant's own, and
# which clusters the catalogue has.


CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}}}
"""431 among them, which Schemathesis doesn't expect: a parameter may be longer than a head may be."""


@pytest.fixture(scope="module")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    (folder / "files" / ".gateway").mkdir(parents=True)
    with HttpApi() as api, running_gateway(gateway_on(f"file://{folder}/files/", api, folder)) as url:
        yield url


@pytest.fixture(scope="module")
def document(gateway_url: str) -> Any:
    return schemathesis.openapi.from_url(f"{gateway_url}/openapi.json", config=schemathesis.Config.from_dict(CONFIG))


def test_every_answer_is_as_the_document_says(document: Any, subtests: pytest.Subtests) -> None:
    for operation in document.get_all_operations():
        with subtests.test(operation.ok().label):
            _try(operation.ok())


def _try(operation: Any) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(
        case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    )
    def answers(case: schemathesis.Case) -> None:
        # With an id of nothing, or of dots, the path is another one (RFC 3986, section 5.2.4). With a line feed alone
        # it is one for Starlette, whose patterns end with `$`: that of the list.
        assume(not any(unquote(str(value)).strip(".\n") == "" for value in case.path_parameters.values()))
        case.call_and_validate(headers=bearer(ALICE), excluded_checks=[positive_data_acceptance])

    answers()
