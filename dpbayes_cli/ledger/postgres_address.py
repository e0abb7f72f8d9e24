"""The address of a ledger on a PostgreSQL server: read strictly, never shown as it was given.

A text that is not understood may hold a password in any place, so that no message repeats any of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

from dpbayes_cli.errors import LedgerError

DEFAULT_SCHEMA = "dpbayes"
_SCHEME = re.compile(r"postgres(?:ql)?:", re.IGNORECASE)
_NETLOC = re.compile(r"(?:(?P<user>[^:@]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@,]*)(?::(?P<port>[0-9]{1,5}))?")
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#\\]")
_SECRETS = {"password", "sslpassword"}
_OPTIONS = {
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "passfile",
    "require_auth",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslrootcert",
}
"""What a URL may set beside the place. ``options`` is not among them: it could make commits less durable."""
_FORM = "postgresql://USER@HOST:PORT/DATABASE"
_PASSWORDS = "the password belongs in $PGPASSWORD or in the file that $PGPASSFILE names"


@dataclass(frozen=True)
class PostgresAddress:
    """Where on which server a ledger is.

    Attributes:
        user, host, port, database: as stated; an empty text leaves it to the environment. A host may be a directory.
        schema: the schema that holds the tables.
        options: what else the connection is made with, none of it secret.
    """

    user: str
    host: str
    port: str
    database: str
    schema: str = DEFAULT_SCHEMA
    options: tuple[tuple[str, str], ...] = ()

    @property
    def location(self) -> str:
        """The place alone: neither a password nor any option can be in it."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        port = f":{self.port}" if self.port else ""
        schema = "" if self.schema == DEFAULT_SCHEMA else f"?schema={self.schema}"
        return f"postgresql://{user}{host}{port}/{quote(self.database, safe='')}{schema}"

    @property
    def parameters(self) -> dict[str, str]:
        """What the driver is given."""
        stated = {"user": self.user, "host": self.host, "port": self.port, "dbname": self.database}
        return {name: value for name, value in stated.items() if value} | dict(self.options)


def is_address(text: str) -> bool:
    """Return whether a text is meant as the address of a PostgreSQL server, rightly written or not."""
    return _SCHEME.match(text) is not None


def parse_address(text: str) -> PostgresAddress:
    """Read ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME``.

    Raises:
        LedgerError: it is not of this form, holds a password, or states what may not be stated.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in {"postgresql", "postgres"} or _FORBIDDEN.search(text):
        raise _malformed()
    place, _, query = rest.partition("?")
    netloc, _, database = place.partition("/")
    if ":" in netloc.rpartition("@")[0]:
        raise _secret()
    match = _NETLOC.fullmatch(netloc)
    if match is None or re.search(r"[/@:,]", database):
        raise _malformed()
    options = _options(query)
    user, host, database = (_decoded(part) for part in (match["user"] or "", match["host"], database))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    directory = options.pop("host", "")
    if not database:
        raise LedgerError("the address of the ledger names no database", hint=f"{_FORM}; {_PASSWORDS}")
    if ":" in user:
        raise _secret()
    if _SCHEMA.fullmatch(schema) is None:
        raise LedgerError("the schema in the ledger's address is not a plain name in lower case")
    if (directory and host) or "," in host + directory:
        raise LedgerError(
            "the address of the ledger names several hosts",
            hint="name one: a standby that took over could have lost the last charges",
        )
    return PostgresAddress(
        user, host.strip("[]") or directory, match["port"] or "", database, schema, tuple(sorted(options.items()))
    )


def _options(query: str) -> dict[str, str]:
    """Return what follows the question mark."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
    except ValueError:
        raise _malformed() from None
    if _SECRETS & {name.lower() for name, _ in pairs}:
        raise _secret()
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= {*_OPTIONS, "schema", "host"}:
        raise LedgerError(
            "the address of the ledger states something that may not be stated there",
            hint=f"allowed after the question mark, once each: {', '.join(sorted({*_OPTIONS, 'schema', 'host'}))}",
        )
    return options


def _decoded(part: str) -> str:
    """Return a part with its percent signs resolved."""
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise _malformed() from None
    if not text.isprintable():
        raise _malformed()
    return text


def _malformed() -> LedgerError:
    return LedgerError("the ledger's address is not understood", hint=f"{_FORM}; {_PASSWORDS}")


def _secret() -> LedgerError:
    return LedgerError(
        "the ledger's address holds a password, where other users of this machine can read it; it was not used",
        hint=f"{_FORM}; {_PASSWORDS}",
    )
