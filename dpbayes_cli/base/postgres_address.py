"""The address of a ledger or a table on a PostgreSQL server: read strictly, never shown as it was given.

A text that is not understood may hold a password in any place, so that no message repeats any of it.
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
_FORM_OF_TABLE = f"{_FORM}/TABLE, or /SCHEMA.TABLE"
_PASSWORDS = "the password belongs in $PGPASSWORD or in the file that $PGPASSFILE names"


@dataclass(frozen=True)
class PostgresAddress:
    """Where on which server a ledger is, or a table.

    Attributes:
        user, host, port, database: as stated; an empty text leaves it to the environment. A host may be a directory.
        schema: the schema that holds the tables.
        options: what else the connection is made with, none of it secret.
        table: the name of the table that is meant, where one is.
    """

    user: str
    host: str
    port: str
    database: str
    schema: str = DEFAULT_SCHEMA
    options: tuple[tuple[str, str], ...] = ()
    table: str = ""

    @property
    def location(self) -> str:
        """The place alone: neither a password nor any option can be in it."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        port = f":{self.port}" if self.port else ""
        schema = "" if self.schema == DEFAULT_SCHEMA else f"?schema={self.schema}"
        if self.table:
            schema = "/" + ".".join(quote(name, safe="").replace(".", "%2E") for name in (self.schema, self.table))
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
    """Read ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME``, where a ledger is.

    Raises:
        LedgerError: it is not of this form, holds a password, or states what may not be stated.
    """
    return _parsed(text, _Meant("ledger", _FORM, LedgerError))


def parse_table_address(text: str) -> PostgresAddress:
    """Read ``postgresql://USER@HOST:PORT/DATABASE/SCHEMA.TABLE``, where a table is; the schema is ``public``, if none.

    Raises:
        SourceError: it is not of this form, holds a password, or states what may not be stated.
    """
    meant = _Meant("table", _FORM_OF_TABLE, SourceError)
    place, mark, query = text.partition("?")
    begin, separator, name = place.rpartition("/")
    schema, dot, table = name.rpartition(".")
    whole = separator and begin.count("/") == 3 and name  # the two of the scheme, and the one before the database
    address = _parsed(begin + mark + query if whole else text, meant)
    if not whole:
        raise meant.error("the address names no table", hint=f"{_FORM_OF_TABLE}; {_PASSWORDS}")
    names = _decoded(schema, meant) if dot else "public", _decoded(table, meant)
    if not all(names) or address.schema != DEFAULT_SCHEMA or any("." in part for part in (schema, table)):
        raise _malformed(meant)
    return replace(address, schema=names[0], table=names[1])


@dataclass(frozen=True)
class _Meant:
    """What an address is the address of, its form, and the error where it is none."""

    what: str
    form: str
    error: type[DpbayesError]


def _parsed(text: str, meant: _Meant) -> PostgresAddress:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in {"postgresql", "postgres"} or _FORBIDDEN.search(text):
        raise _malformed(meant)
    place, _, query = rest.partition("?")
    netloc, _, database = place.partition("/")
    if ":" in netloc.rpartition("@")[0]:
        raise _secret(meant)
    match = _NETLOC.fullmatch(netloc)
    if match is None or re.search(r"[/@:,]", database):
        raise _malformed(meant)
    options = _options(query, meant)
    user, host, database = (_decoded(part, meant) for part in (match["user"] or "", match["host"], database))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    directory = options.pop("host", "")
    if not database:
        raise meant.error(f"the address of the {meant.what} names no database", hint=f"{meant.form}; {_PASSWORDS}")
    if ":" in user:
        raise _secret(meant)
    if _SCHEMA.fullmatch(schema) is None:
        raise meant.error(f"the schema in the {meant.what}'s address is not a plain name in lower case")
    if (directory and host) or "," in host + directory:
        raise meant.error(
            f"the address of the {meant.what} names several hosts",
            hint="name one: a standby that took over could have lost the last charges",
        )
    return PostgresAddress(
        user, host.strip("[]") or directory, match["port"] or "", database, schema, tuple(sorted(options.items()))
    )


def _options(query: str, meant: _Meant) -> dict[str, str]:
    """Return what follows the question mark."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
    except ValueError:
        raise _malformed(meant) from None
    if _SECRETS & {name.lower() for name, _ in pairs}:
        raise _secret(meant)
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= {*_OPTIONS, "schema", "host"}:
        raise meant.error(
            f"the address of the {meant.what} states something that may not be stated there",
            hint=f"allowed after the question mark, once each: {', '.join(sorted({*_OPTIONS, 'schema', 'host'}))}",
        )
    return options


def _decoded(part: str, meant: _Meant) -> str:
    """Return a part with its percent signs resolved."""
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise _malformed(meant) from None
    if not text.isprintable():
        raise _malformed(meant)
    return text


def _malformed(meant: _Meant) -> DpbayesError:
    return meant.error(f"the {meant.what}'s address is not understood", hint=f"{meant.form}; {_PASSWORDS}")


def _secret(meant: _Meant) -> DpbayesError:
    return meant.error(
        f"the {meant.what}'s address holds a password, where other users of this machine can read it; it was not used",
        hint=f"{meant.form}; {_PASSWORDS}",
    )
