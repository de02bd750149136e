"""What a token says of itself, and which texts are none that could be shown to the API server."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.identity.jwt import LEEWAY_SECONDS, read_claims
from fixtures.tokens import ISSUER, jwt, part

HEADER, CLAIMS = part({"alg": "RS256", "kid": "k"}), part({"iss": ISSUER, "sub": "alice"})
NESTED = b'{"alg": "RS256", "x": ' + b"[" * 9000
NONE_THAT_IS_SHOWN = {
    "nothing": "",
    "a key": "sk-1234567890",
    "two parts": f"{HEADER}.{CLAIMS}",
    "four parts": f"{HEADER}.{CLAIMS}.x.y",
    "no signature": f"{HEADER}.{CLAIMS}.",
    "no claims": f"{HEADER}..x",
    "a line's end": f"{HEADER}.{CLAIMS}.x\n",
    "a blank": f"{HEADER}.{CLAIMS} .x",
    "other letters": f"{HEADER}.{CLAIMS}.é",
    "standard base64": f"{HEADER}.{base64.b64encode(b'???>>>').decode()}.x",
    "words": "header.claims.signature",
    "a length that base64 hasn't": f"{HEADER}.{CLAIMS[:5]}.x",
    "a header that is no JSON": f"{part(b'{')}.{CLAIMS}.x",
    "a header that is no object": f"{part([])}.{CLAIMS}.x",
    "a header without an algorithm": f"{part({})}.{CLAIMS}.x",
    "no algorithm": jwt("alice", header={"alg": "none"}),
    "no algorithm, otherwise written": jwt("alice", header={"alg": "NONE"}),
    "an algorithm without a name": jwt("alice", header={"alg": ""}),
    "claims that are no JSON": f"{HEADER}.{part(b'}')}.x",
    "claims that are no object": f"{HEADER}.{part('alice')}.x",
    "claims that are no UTF-8": f"{HEADER}.{part(bytes([0xFF]))}.x",
    "a subject that is no text": f"{HEADER}.{part({'sub': 1})}.x",
    "claims in too many brackets": f"{HEADER}.{part(NESTED)}.x",
    "a header in too many brackets": f"{part(NESTED)}.{CLAIMS}.x",
    "an end that is no number": jwt("alice", exp="tomorrow"),
    "too long": f"{HEADER}.{CLAIMS}.{'x' * 20_000}",
}


@pytest.mark.parametrize("text", NONE_THAT_IS_SHOWN.values(), ids=list(NONE_THAT_IS_SHOWN))
def test_what_can_be_no_token(text: str) -> None:
    assert read_claims(text) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}.{CLAIMS}.x",
        f"{HEADER}.{part({})}.x",
        jwt("alice", exp=1_700_000_000, nbf=1, iat=1, aud=["a"], **{"kubernetes.io": {"namespace": "team-a"}}),
        jwt("alice", exp=1_700_000_000.5),
        jwt("alice", exp=None, header={"alg": "ES256", "typ": "JWT"}),
    ],
)
def test_what_can_be_a_token(text: str) -> None:
    assert read_claims(text) is not None


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    read_claims(text)
    read_claims(f"{part(text.encode(errors='replace'))}.{part(text.encode(errors='replace'))}.x")


def test_an_identity_is_issuer_and_subject() -> None:
    same = [read_claims(jwt("alice", jti="1")), read_claims(jwt("alice", jti="2", exp=5))]
    others = [jwt("bob"), jwt("alice", iss=f"{ISSUER}alice"), jwt("", iss=f"{ISSUER}alice"), jwt("alice", iss="")]
    identities = {claims.identity for claims in same if claims is not None}
    assert len(identities) == 1
    assert len(identities | {claims.identity for claims in map(read_claims, others) if claims is not None}) == 5


@pytest.mark.parametrize(
    ("exp", "ended"),
    [(None, False), (1000, True), (2000 - LEEWAY_SECONDS, False), (1999 - LEEWAY_SECONDS, True), (9e9, False)],
)
def test_a_token_has_ended_once_no_clock_has_its_end_before_it(exp: float | None, ended: bool) -> None:
    claims = read_claims(jwt("alice", exp=exp))
    assert claims is not None
    assert claims.has_ended(2000.0) is ended
