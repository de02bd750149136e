"""Who sends a request, and whether they may: by an API key of the gateway, or by a token of the cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity.api_keys import KeyEntry, is_api_key
from batchwright.gateway.identity.key_ring import KeyRing
from batchwright.gateway.identity.namespaces import HEADER, chosen_namespace, is_namespace
from batchwright.gateway.identity.tokens import Tokens, own_namespace
from batchwright.gateway.principal import Principal, Verb
from batchwright.kube.access_reviews import TokenOwner

_BEARER: Final = re.compile(r"\s*bearer\s+(\S+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrincipal(Principal):
    """Somebody with a token of the cluster, and what the API server needs to judge them."""

    owner: TokenOwner = field(repr=False)


class KeysAndTokens:
    """The gateway's `context.Authenticator`."""

    def __init__(self, keys: KeyRing, tokens: Tokens) -> None:
        self._keys = keys
        self._tokens = tokens

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Who sent a request with these headers (names in lower case).

        Raises:
            ApiError: 401 without a key or token that is known; 400 or 403 where the namespace is missing or not theirs;
                429 where too many tokens come in that aren't known.
            KubernetesError: the API server doesn't answer.
        """
        chosen = chosen_namespace(headers)
        secret = bearer_of(headers)
        if secret is None:
            raise errors.invalid_api_key()
        return self._by_key(secret, chosen) if is_api_key(secret) else self._by_token(secret, chosen)

    def authorize(self, principal: Principal, verb: Verb) -> None:
        """Raises ApiError (403) where they may not do this with BatchJobs of their namespace; 429 where the holder of a
        token asks for too many. A key allows everything in its own; a token what the cluster's rights allow.
        """
        if not isinstance(principal, TokenPrincipal):
            return
        namespace = principal.namespace
        if namespace is None or not self._tokens.allows(principal.owner, verb, namespace):
            raise errors.forbidden(
                f"{principal.user!r} may not {verb} batchjobs.batchwright.dev in the namespace {namespace!r}. An"
                " administrator grants it with a Role and a RoleBinding."
            )

    def check(self) -> None:
        """Raises KubernetesError where nobody can be authenticated, since the API keys can't be read."""
        self._keys.check()

    def _by_key(self, text: str, chosen: str | None) -> Principal:
        entry = self._keys.find(text)
        if entry is None:
            raise errors.invalid_api_key()
        return principal_of(entry, chosen)

    def _by_token(self, token: str, chosen: str | None) -> Principal:
        owner = self._tokens.owner(token)
        if owner is None:
            raise errors.invalid_api_key()
        namespace = chosen or own_namespace(owner)
        if namespace is None or not is_namespace(namespace):
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                f"The token says who you are, not for which namespace you ask: name it with the header `{HEADER}`.",
                code="missing_required_parameter",
                param=HEADER,
            )
        return TokenPrincipal(owner.username, namespace, via="token", owner=owner)


def principal_of(entry: KeyEntry, chosen: str | None) -> Principal:
    """Whose a key is, where the request chose a namespace or none. Raises ApiError (403) where that isn't theirs."""
    if entry.admin:
        return Principal(entry.user, chosen, admin=True)
    if chosen not in (None, entry.namespace):
        raise errors.forbidden(
            f"The namespace {chosen!r} in the header `{HEADER}` is not yours: this key is for one namespace alone."
            " Leave the header out."
        )
    return Principal(entry.user, entry.namespace)


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """What stands behind `Bearer`, however that is written; None where nothing does."""
    form = _BEARER.fullmatch(headers.get("authorization", ""))
    return form[1] if form else None
