"""The driver of PostgreSQL, and how dpbayes connects: the same for a ledger and for a table of records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.base.postgres_address import PostgresAddress

if TYPE_CHECKING:
    import psycopg

_CONNECTING = 10


def import_driver(what: str, error: type[DpbayesError]) -> Any:
    """Return the driver, which is imported where something is on PostgreSQL, and nowhere else.

    Args:
        what: what is there, for the message.
        error: the error where the driver is missing.

    Raises:
        DpbayesError: it is not installed.
    """
    try:
        import psycopg
    except ImportError:
        hint = "pip install 'dpbayes[postgres]'"
        raise error(f"{what} on PostgreSQL needs a driver that is not installed", hint=hint) from None
    logging.getLogger("psycopg").disabled = True  # its texts could hold what the server said
    return psycopg


def connect(driver: Any, address: PostgresAddress, **settings: int) -> psycopg.Connection[Any]:
    """Connect; a server that is gone is noticed after some 25 seconds.

    Args:
        driver: the driver.
        address: where.
        settings: more for the driver.
    """
    found: psycopg.Connection[Any] = driver.connect(
        **address.parameters,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=_CONNECTING,
        client_encoding="UTF8",
        application_name="dpbayes",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        **settings,
    )
    return found
