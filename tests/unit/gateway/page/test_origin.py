"""Whose page sent a form."""

import pytest

from batchwright.gateway.page.origin import is_own


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site", "origin": "https://gw.example", "host": "gw.example"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "https://gw.example", "host": "gw.example"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://gw.example:8080", "host": "gw.example:8080"}, True),
        ({"origin": "https://GW.example", "host": "gw.example"}, True),
        ({"origin": "https://gw.example", "host": "10.0.0.7:8080", "x-forwarded-host": "gw.example"}, True),
        ({"origin": "https://evil.example", "host": "gw.example"}, False),
        ({"origin": "https://gw.example.evil.example", "host": "gw.example"}, False),
        ({"origin": "http://gw.example:81", "host": "gw.example"}, False),
        ({"origin": "null", "host": "gw.example"}, False),
        ({"origin": "null", "host": ""}, False),
        ({"origin": "", "host": ""}, False),
        ({"host": "gw.example"}, False),
        ({}, False),
    ],
)
def test_a_form_is_taken_from_the_page_itself_alone(headers: dict[str, str], own: bool) -> None:
    assert is_own(headers) is own
