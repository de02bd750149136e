"""Whether the server lists the model, as a table of its addresses' answers."""

import pytest

from batchwright.worker.server.models import Listing, listing_of
from batchwright.worker.transport.errors import ConnectFailed, TransportError
from batchwright.worker.transport.protocol import Answer

HAS = Answer(200, {}, b'{"data":[{"id":"m"},{"id":"lora"}]}')
LACKS = Answer(200, {}, b'{"data":[{"id":"other"},{"id":"another"}]}')
EMPTY = Answer(200, {}, b'{"data":[]}')
NO_LIST = Answer(404, {}, b"")
PAGE = Answer(200, {}, b"<h1>Hello</h1>")
REFUSED = Answer(401, {}, b"")
BUSY = Answer(503, {}, b"")
DOWN = ConnectFailed("refused")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([HAS], Listing.LISTED),
        ([HAS, HAS], Listing.LISTED),
        ([HAS, DOWN], Listing.LISTED),
        ([HAS, REFUSED], Listing.LISTED),
        ([LACKS], Listing.UNLISTED),
        ([EMPTY], Listing.UNLISTED),
        ([HAS, LACKS], Listing.UNLISTED),
        ([NO_LIST], Listing.NO_LIST),
        ([PAGE], Listing.NO_LIST),
        ([NO_LIST, DOWN], Listing.NO_LIST),
        ([REFUSED], Listing.REFUSED),
        ([Answer(403, {}, b"")], Listing.REFUSED),
        ([BUSY], Listing.UNREACHABLE),
        ([DOWN, DOWN], Listing.UNREACHABLE),
    ],
)
def test_what_the_addresses_say_together(results: list[Answer | TransportError], expected: Listing) -> None:
    assert listing_of(results, "m")[0] is expected


def test_what_it_serves_instead_is_named() -> None:
    assert listing_of([LACKS], "m")[1] == "The model server no longer serves m. It serves: another, other."
    assert listing_of([EMPTY], "m")[1] == "The model server no longer serves m. It serves: none."
