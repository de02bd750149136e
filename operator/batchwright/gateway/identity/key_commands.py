"""`batchwright-gateway keys create|revoke|list`: API keys, managed by an administrator with a kubeconfig of their own.

Each key is one entry of the Secret `gateway-keys`, and only that entry is written: two administrators at once don't
undo each other's work. A key is printed once, alone, on standard output.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from batchwright.api import names
from batchwright.gateway.identity.api_keys import (
    RANDOM_BYTES,
    KeyEntry,
    decode_entries,
    encode_entry,
    new_key,
)
from batchwright.gateway.identity.key_ring import FRESH_SECONDS, SECRET
from batchwright.gateway.identity.namespaces import is_namespace
from batchwright.kube import errors
from batchwright.kube.connection import Connection, path_of
from batchwright.kube.secrets import SecretObject

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
DEFAULT_NAMESPACE: Final = "batchwright-system"
_LABELS: Final = {names.LABEL_MANAGED_BY: names.MANAGED_BY, "app.kubernetes.io/part-of": names.MANAGED_BY}
_COLUMNS: Final = ("ID", "USER", "NAMESPACE", "ADMIN", "CREATED")


class CommandError(Exception):
    """What can't be done; the message names cause and remedy."""


def main(arguments: Sequence[str], connect: Callable[[str | None], Connection] | None = None) -> int:
    """Run a command. Exit code 1 where it failed, 2 for wrong usage.

    connect: gives a connection by the name of a kubeconfig's context; None there is the current one.
    """
    options = _parser().parse_args(arguments)
    try:
        connection = (connect or _connect)(options.context)
        return int(options.command(connection, options))
    except (CommandError, ValueError) as error:
        return _fail(str(error))
    except errors.Refused as error:
        return _fail(f"{error}. It takes the right to get, create and patch Secrets in {options.gateway_namespace}")
    except errors.KubernetesError as error:
        return _fail(str(error))


def _connect(context: str | None) -> Connection:
    return Connection.open(context=context)


def _create(connection: Connection, options: argparse.Namespace) -> int:
    key = new_key(
        secrets.token_bytes(RANDOM_BYTES),
        namespace=options.namespace,
        user=options.user,
        admin=options.admin,
        now=datetime.now(UTC).replace(microsecond=0),
    )
    if key.entry.namespace is not None:
        _check_namespace(connection, key.entry.namespace)
    secret = _secret(connection, options)
    try:
        secret.write({key.id: encode_entry(key.entry)}, _LABELS)
    except errors.NotFound as error:
        raise CommandError(
            f"there is no namespace {secret.namespace!r} for the Secret: install the gateway first, or name its"
            " namespace with --gateway-namespace"
        ) from error
    sys.stdout.write(f"{key.text}\n")
    sys.stderr.write(f"The key is shown this once. It works within {FRESH_SECONDS:.0f} s; its id is {key.id}.\n")
    return 0


def _check_namespace(connection: Connection, namespace: str) -> None:
    try:
        connection.get(path_of("v1", "namespaces", None, namespace))
    except errors.NotFound as error:
        raise CommandError(
            f"there is no namespace {namespace!r}, where the key's batches would run: create it first"
        ) from error
    except errors.Refused:  # may make keys and not look at namespaces
        return


def _revoke(connection: Connection, options: argparse.Namespace) -> int:
    secret = _secret(connection, options)
    if options.id not in (secret.read() or {}):
        raise CommandError(
            f"there is no key {options.id!r} in the Secret {secret}: `keys list` shows those that there are"
        )
    secret.write({options.id: None}, _LABELS)
    sys.stderr.write(f"Key {options.id} is revoked. It opens nothing more within {FRESH_SECONDS:.0f} s.\n")
    return 0


def _list(connection: Connection, options: argparse.Namespace) -> int:
    secret = _secret(connection, options)
    entries, damaged = decode_entries(secret.read() or {})
    for line in table(entries):
        sys.stdout.write(f"{line}\n")
    if damaged:
        sys.stderr.write(
            f"Entries of the Secret {secret} that are no keys, and ignored: {', '.join(damaged)}. `keys revoke`"
            " removes them.\n"
        )
    return 0


def table(entries: Mapping[str, KeyEntry]) -> list[str]:
    """The keys in columns, the oldest first."""
    ordered = sorted(entries.items(), key=lambda item: (item[1].created_at, item[0]))
    rows = [_COLUMNS, *(_row(identity, entry) for identity, entry in ordered)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(identity: str, entry: KeyEntry) -> tuple[str, ...]:
    created = entry.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return identity, entry.user, entry.namespace or "-", "yes" if entry.admin else "no", created


def _secret(connection: Connection, options: argparse.Namespace) -> SecretObject:
    if not is_namespace(options.gateway_namespace):
        raise CommandError(f"--gateway-namespace {options.gateway_namespace!r} can't be the name of a namespace")
    return SecretObject(connection, options.gateway_namespace, SECRET)


def _fail(message: str) -> int:
    sys.stderr.write(f"batchwright-gateway keys: {message}\n")
    return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    where.add_argument(
        "--gateway-namespace",
        default=DEFAULT_NAMESPACE,
        metavar="NAMESPACE",
        help=f"where the gateway runs (default: {DEFAULT_NAMESPACE})",
    )
    parser = argparse.ArgumentParser(prog="batchwright-gateway keys", description="API keys of the gateway.")
    commands = parser.add_subparsers(required=True, metavar="create|revoke|list")
    create = commands.add_parser("create", parents=[where], help="make a key and print it, once")
    create.add_argument("--namespace", help="the tenant: its batches run in this namespace")
    create.add_argument("--user", required=True, help="who gets it: a name for logs and annotations")
    create.add_argument("--admin", action="store_true", help="a key for all namespaces; leave --namespace out")
    create.set_defaults(command=_create)
    revoke = commands.add_parser("revoke", parents=[where], help="make a key useless")
    revoke.add_argument("id", help="the 12 characters after `bw-`, as `list` shows them")
    revoke.set_defaults(command=_revoke)
    listing = commands.add_parser("list", parents=[where], help="show the keys; of each its id, never more")
    listing.set_defaults(command=_list)
    return parser
