"""Parse the address of a ledger or a table on a PostgreSQL server.

An invalid address may hold a password anywhere, so no message repeats any part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, unquote

from dpbayes_cli.base.errors import DpbayesError, LedgerError, SourceError

DEFAULT_SCHEMA = "dpbayes"
_SCHEME = re.compile(r"postgres(?:ql)?:", re.IGNORECASE)
_NETLOC = re.compile(r"(?:(?P<user>[^:@]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@,]*)(?::(?P<port>[0-9]{1,5}))?")
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#\\]")
_SECRETS = {"password", "sslpassword"}
_OPTIONS = {
    "channel_binding", "gssencmode", "krbsrvname", "passfile", "require_auth", "sslcert", "sslcrl", "sslkey",
    "sslmode", "sslrootcert",
}  # fmt: skip
"""Settings that an address may hold after the question mark. The setting ``options`` is not among them, because it
could make commits less durable."""
_FORM = "postgresql://USER@HOST:PORT/DATABASE"
_FORM_OF_TABLE = f"{_FORM}/TABLE, or /SCHEMA.TABLE"
_PASSWORDS = "put the password in $PGPASSWORD or in the file that $PGPASSFILE names"
_MALFORMED = "is not valid"
_SHOWN_TO_OTHERS = "holds a password, which other users of this machine can read; the password was not used"


@dataclass(frozen=True)
class PostgresAddress:
    """The server, database and schema of a ledger or a table."""

    user: str  # for an empty part of the address, the driver uses its environment variable
    host: str  # may also be the directory of a socket
    port: str
    database: str
    schema: str = DEFAULT_SCHEMA  # the schema that holds the tables
    options: tuple[tuple[str, str], ...] = ()  # further settings of the connection, none of them secret
    table: str = ""  # the name of the table, empty for a ledger

    @property
    def location(self) -> str:
        """The address without options; it may be shown, because it cannot hold a password."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        port = f":{self.port}" if self.port else ""
        schema = "" if self.schema == DEFAULT_SCHEMA else f"?schema={self.schema}"
        if self.table:
            schema = "/" + ".".join(quote(name, safe="").replace(".", "%2E") for name in (self.schema, self.table))
        return f"postgresql://{user}{host}{port}/{quote(self.database, safe='')}{schema}"

    @property
    def parameters(self) -> dict[str, str]:
        """The settings of the connection, for the driver."""
        stated = {"user": self.user, "host": self.host, "port": self.port, "dbname": self.database}
        return {name: value for name, value in stated.items() if value} | dict(self.options)


def is_address(text: str) -> bool:
    """Return whether a text is meant as the address of a PostgreSQL server, valid or not."""
    return _SCHEME.match(text) is not None


def parse_address(text: str) -> PostgresAddress:
    """Parse the address of a ledger, ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME``, or raise ``LedgerError``."""
    return _parsed(text, _AddressKind("ledger", _FORM, LedgerError))


def parse_table_address(text: str) -> PostgresAddress:
    """Parse the address of a table, ``postgresql://USER@HOST:PORT/DATABASE/SCHEMA.TABLE``, or raise ``SourceError``.

    Without a schema, the table is in ``public``.
    """
    kind = _AddressKind("table", _FORM_OF_TABLE, SourceError)
    place, mark, query = text.partition("?")
    begin, separator, name = place.rpartition("/")
    schema, dot, table = name.rpartition(".")
    whole = separator and begin.count("/") == 3 and name  # two slashes of the scheme, and one before the database
    address = _parsed(begin + mark + query if whole else text, kind)
    if not whole:
        raise kind.refusal("names no table")
    names = _decoded(schema, kind) if dot else "public", _decoded(table, kind)
    if not all(names) or address.schema != DEFAULT_SCHEMA or any("." in part for part in (schema, table)):
        raise kind.refusal(_MALFORMED)
    return replace(address, schema=names[0], table=names[1])


@dataclass(frozen=True)
class _AddressKind:
    """A kind of address: what it names (``ledger`` or ``table``), its form, and the error for an invalid address."""

    what: str
    form: str
    error: type[DpbayesError]

    def refusal(self, why: str, hint: str | None = None) -> DpbayesError:
        """Return the error for an invalid address; without ``hint``, the form of a valid address is the hint."""
        shown = f"{self.form}; {_PASSWORDS}" if hint is None else hint
        return self.error(f"the address of the {self.what} {why}", hint=shown)


def _parsed(text: str, kind: _AddressKind) -> PostgresAddress:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in {"postgresql", "postgres"} or _FORBIDDEN.search(text):
        raise kind.refusal(_MALFORMED)
    place, _, query = rest.partition("?")
    netloc, _, database = place.partition("/")
    if ":" in netloc.rpartition("@")[0]:
        raise kind.refusal(_SHOWN_TO_OTHERS)
    match = _NETLOC.fullmatch(netloc)
    if match is None or re.search(r"[/@:,]", database):
        raise kind.refusal(_MALFORMED)
    options = _options(query, kind)
    user, host, database = (_decoded(part, kind) for part in (match["user"] or "", match["host"], database))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    directory = options.pop("host", "")
    if not database:
        raise kind.refusal("names no database")
    if ":" in user:
        raise kind.refusal(_SHOWN_TO_OTHERS)
    if _SCHEMA.fullmatch(schema) is None:
        raise kind.refusal("holds a schema that is not a plain name in lower case", hint="")
    if (directory and host) or "," in host + directory:
        raise kind.refusal("names several hosts", "name one host: a standby may have lost the last charges")
    return PostgresAddress(
        user, host.strip("[]") or directory, match["port"] or "", database, schema, tuple(sorted(options.items()))
    )


def _options(query: str, kind: _AddressKind) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
    except ValueError:
        raise kind.refusal(_MALFORMED) from None
    if _SECRETS & {name.lower() for name, _ in pairs}:
        raise kind.refusal(_SHOWN_TO_OTHERS)
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= {*_OPTIONS, "schema", "host"}:
        allowed = ", ".join(sorted({*_OPTIONS, "schema", "host"}))
        raise kind.refusal(
            "sets an option that is not allowed", f"allowed after the question mark, each once: {allowed}"
        )
    return options


def _decoded(part: str, kind: _AddressKind) -> str:
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise kind.refusal(_MALFORMED) from None
    if not text.isprintable():
        raise kind.refusal(_MALFORMED)
    return text
