"""The PostgreSQL driver and its connections, for ledgers and for tables of records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.base.postgres_address import PostgresAddress

if TYPE_CHECKING:
    import psycopg


def import_driver(what: str, error: type[DpbayesError]) -> Any:
    """Import and return the driver for ``what``, a ledger or a table; raise ``error`` if it is not installed."""
    try:
        import psycopg
    except ImportError:
        hint = "pip install 'dpbayes[postgres]'"
        raise error(f"{what} on PostgreSQL needs a driver that is not installed", hint=hint) from None
    logging.getLogger("psycopg").disabled = True  # its messages could quote the server
    return psycopg


def connect(driver: Any, address: PostgresAddress, **settings: int) -> psycopg.Connection[Any]:
    """Return a connection; it fails about 25 seconds after its server has become unreachable."""
    connection: psycopg.Connection[Any] = driver.connect(
        **address.parameters,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=10,  # seconds
        client_encoding="UTF8",
        application_name="dpbayes",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        **settings,
    )
    return connection
