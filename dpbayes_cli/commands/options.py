"""Options that several commands share, each declared once."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger

Command = TypeVar("Command", bound=Callable[..., Any])

QUESTION: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "model": (("--model",), {"metavar": "NAME", "help": "The model; see: dpbayes models."}),
    "mechanism": (("--mechanism",), {"metavar": "NAME", "help": "The mechanism [laplace]; see: dpbayes mechanisms."}),
    "privacy.epsilon": (("--epsilon", "--eps"), {"metavar": "E", "help": "The epsilon to spend, a decimal."}),
    "privacy.delta": (("--delta",), {"metavar": "D", "help": "gaussian: the delta beside epsilon."}),
    "privacy.rho": (("--rho",), {"metavar": "R", "help": "gaussian: the rho of zCDP to spend."}),
    "privacy.order": (("--order",), {"metavar": "L", "help": "rdp mechanisms: the order of epsilon [2]."}),
    "sampling.draws": (
        ("--draws",),
        {"metavar": "K", "help": "ops, rdp, gibbs: posterior draws to release, map: estimates [1]."},
    ),
    "sampling.temper": (("--temper",), {"metavar": "WHAT", "help": "ops: likelihood [default] or joint."}),
    "sampling.support": (
        ("--support",),
        {"metavar": "LOW,HIGH", "help": "ops, map: the public range of the parameter."},
    ),
    "sampling.selection": (
        ("--selection",),
        {"metavar": "HOW", "help": "map: exponential [default] or permute-and-flip."},
    ),
    "privacy.mu": (("--mu",), {"metavar": "M", "help": "gibbs-posterior: the mu of Gaussian DP to spend."}),
    "sampling.calibration": (
        ("--calibration",),
        {"metavar": "RULE", "help": "gibbs-posterior: gdp [default], minami or geumlek."},
    ),
    "sampling.step": (("--step",), {"metavar": "H", "help": "gibbs-posterior: the chain's step [1 / M]."}),
    "sampling.steps": (("--steps",), {"metavar": "T", "help": "gibbs-posterior: the chain's horizon."}),
    "sampling.kernel": (("--kernel",), {"metavar": "HOW", "help": "gibbs: gibbs [default], barker or annealed."}),
    "sampling.sweeps": (("--sweeps",), {"metavar": "N", "help": "gibbs: sweeps of the chain, all paid for [200]."}),
    "sampling.log_weight_epsilon": (
        ("--log-weight-epsilon",),
        {"metavar": "E", "help": "gibbs, annealed: what of epsilon a noisy log weight may cost."},
    ),
    "privacy.neighbors": (
        ("--neighbors",),
        {"metavar": "RELATION", "help": "replace-one [default] or add-remove."},
    ),
    "privacy.unit.column": (
        ("--unit",),
        {"metavar": "COLUMN", "help": "The column that says whose a record is [each is a unit of its own]."},
    ),
    "privacy.unit.max_contributions": (
        ("--max-contributions",),
        {"metavar": "K", "help": "Records of a unit that count [1]; others are left out."},
    ),
    "dataset": (("--dataset",), {"metavar": "NAME", "help": "The account that pays [the file's stem]."}),
    "column": (("--column",), {"metavar": "NAME", "help": "The column; implied where there is one."}),
    "on_invalid": (
        ("--on-invalid",),
        {"metavar": "RULE", "help": "Invalid records: drop [default] or impute:VALUE."},
    ),
    "records": (("--records",), {"metavar": "N", "help": "The public number of records, checked against the data."}),
    "domain.success": (("--success",), {"metavar": "TEXT", "help": "beta-bernoulli: what counts as a success [1]."}),
    "domain.failure": (("--failure",), {"metavar": "TEXT", "help": "beta-bernoulli: what counts as a failure [0]."}),
    "domain.categories": (
        ("--categories",),
        {"metavar": "A,B,C", "help": "dirichlet-categorical: the valid texts, in order."},
    ),
    "domain.lower": (("--lower",), {"metavar": "X", "help": "normal-mean: the public lower bound."}),
    "domain.upper": (("--upper",), {"metavar": "X", "help": "models of numbers: the public upper bound."}),
    "bounds.private.epsilon": (
        ("--bounds-epsilon",),
        {"metavar": "E", "help": "models of numbers: find the bounds privately, at this price."},
    ),
    "bounds.private.low": (("--bounds-low",), {"metavar": "X", "help": "The low end of the range they are sought in."}),
    "bounds.private.high": (("--bounds-high",), {"metavar": "X", "help": "The high end of it."}),
    "bounds.private.lower_quantile": (
        ("--bounds-lower-quantile",),
        {"metavar": "Q", "help": "The share of records at or below the lower bound [0.01]."},
    ),
    "bounds.private.upper_quantile": (
        ("--bounds-upper-quantile",),
        {"metavar": "Q", "help": "The share of records at or below the upper bound [0.99]."},
    ),
    "bounds.private.cells": (
        ("--bounds-cells",),
        {"metavar": "N", "help": "Cells of the range; bounds are their edges [1024]."},
    ),
    "domain.variance": (
        ("--variance",),
        {"metavar": "V", "help": "normal-mean, regression: the known variance."},
    ),
    "source.format": (("--input-format",), {"metavar": "FORMAT", "help": "csv or parquet [by the file's name]."}),
    "source.delimiter": (("--delimiter",), {"metavar": "CHAR", "help": "Field delimiter of text files [,]."}),
    "source.quote": (("--quote",), {"metavar": "CHAR", "help": 'Quote of text files ["].'}),
    "source.columns": (("--columns",), {"metavar": "A,B,C", "help": "Names of the columns, with --no-header."}),
    "source.engine": (("--engine",), {"metavar": "NAME", "help": "What reads the data: duckdb [default] or spark."}),
    "source.master": (("--master",), {"metavar": "URL", "help": "With spark: where it runs [local[*]]."}),
    "inference.method": (("--inference",), {"metavar": "METHOD", "help": "noise-aware [default], chain or naive."}),
    "inference.sweeps": (
        ("--chain-sweeps",),
        {"metavar": "N", "help": "With hmm: sweeps of each chain after warming up [120]."},
    ),
    "inference.sampler": (
        ("--state-sampler",),
        {"metavar": "NAME", "help": "With hmm: blocked, or collapsed (one state after the other) [blocked]."},
    ),
    "inference.ess": (("--ess",), {"metavar": "N", "help": "Effective draws that Markov chains must reach [400]."}),
    "inference.samples": (("--samples",), {"metavar": "N", "help": "Posterior samples to write [4000]."}),
    "inference.format": (("--samples-format",), {"metavar": "FORMAT", "help": "parquet [default], csv or netcdf."}),
    "prior": (("--prior",), {"metavar": "K=V,...", "help": "The prior, e.g. alpha=2,beta=5 or concentration=0.5."}),
}
"""Every key of a spec that has a flag; a flag overrides the file."""

_FLAGS = {
    "source.header": (("--no-header",), "false", "The file has no header; give --columns."),
    "source.quoted_newlines": (("--quoted-newlines",), "true", "Quoted texts may span lines."),
}
_LISTS = {"domain.categories", "source.columns", "sampling.support"}
LAYOUT_KEYS = (
    "source.format",
    "source.delimiter",
    "source.quote",
    "source.columns",
    "source.header",
    "source.quoted_newlines",
)
INFERENCE_KEYS = (
    "prior",
    "inference.method",
    "inference.ess",
    "inference.sweeps",
    "inference.sampler",
    "inference.samples",
    "inference.format",
)


def question_options(*keys: str) -> Callable[[Command], Command]:
    """Add the flags of a question (all of them, or those of some keys); collected by ``stated``."""

    def decorate(function: Command) -> Command:
        for key in reversed(keys or [*QUESTION, *_FLAGS]):
            if key in QUESTION:
                flags, settings = QUESTION[key]
                function = click.option(*flags, _parameter(key), default=None, **settings)(function)
            else:
                flags, _, text = _FLAGS[key]
                function = click.option(*flags, _parameter(key), is_flag=True, default=False, help=text)(function)
        return function

    return decorate


def stated(values: dict[str, Any]) -> dict[str, Any]:
    """Return the nested spec that flags state; removes them from ``values``.

    Raises:
        click.UsageError: a prior or a list is malformed.
    """
    document: dict[str, Any] = {}
    for key in [*QUESTION, *_FLAGS]:
        value = values.pop(_parameter(key), None)
        if value is None or value is False:
            continue
        parsed: Any = _FLAGS[key][1] if key in _FLAGS else value
        if key in _LISTS:
            parsed = _listed(value)
        if key == "prior":
            parsed = _pairs(value)
        place = document
        *sections, last = key.split(".")
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = parsed
    return document


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return one nested document laid over another."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merged(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return result


def ledger_option(function: Command) -> Command:
    """Add ``--ledger`` and ``--anchor``."""
    function = click.option(
        "--anchor",
        "stated_anchor",
        type=click.Path(path_type=Path),
        metavar="FILE",
        expose_value=False,
        callback=_remember_anchor,
        help="An anchor that must agree, whatever the ledger says [$DPBAYES_ANCHOR]; see: dpbayes budget anchor.",
    )(function)
    return click.option(
        "--ledger",
        "ledger_place",
        type=click.Path(),
        metavar="FILE",
        help="The ledger, a file or postgresql://USER@HOST/DB [$DPBAYES_LEDGER, else in the user's state directory].",
    )(function)


def open_ledger(place: str | None, *, new_key: Path | None = None) -> Ledger:
    """Return the ledger that a command works on, with the key that the environment states.

    Args:
        place: what ``--ledger`` says.
        new_key: the file of a key that is to be made, so that it need not be there yet.

    Raises:
        LedgerError: the place or the key cannot be used.
    """
    from dpbayes_cli.ledger.key import read_key
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.place import storage_at

    named = os.environ.get("DPBAYES_LEDGER_KEY")
    stated = Path(named) if named else None
    made_now = stated is not None and new_key is not None and stated.absolute() == new_key.absolute()
    key = read_key(stated) if stated is not None and not (made_now and not stated.exists()) else None
    return Ledger(storage_at(place), stated_anchor=_stated_anchor(), key=key)


_ANCHOR = "dpbayes_cli.anchor"


def _remember_anchor(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    context.meta[_ANCHOR] = value


def _stated_anchor() -> Path | None:
    """Return the anchor that the command line or the environment states."""
    context = click.get_current_context(silent=True)
    stated: Path | None = context.meta.get(_ANCHOR) if context else None
    named = os.environ.get("DPBAYES_ANCHOR")
    return stated or (Path(named) if named else None)


def _parameter(key: str) -> str:
    return f"spec_{key.replace('.', '_')}"


def _listed(text: str) -> list[str]:
    try:
        (row,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        raise click.UsageError(f"{text!r} is not a list of texts separated by commas") from None
    return [item.strip() for item in row]


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals or not key.strip() or key.strip() in pairs:
            raise click.UsageError(f"{text!r} is not of the form key=value,key=value")
        pairs[key.strip()] = value.strip()
    return pairs
