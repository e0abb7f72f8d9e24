"""The common keys of a spec, each with its flag and its description, for specs, schema and help.

This module imports little, because the help of a command loads it even if no model is named. Options of a mechanism or
a model carry their own descriptions (``core/options.py``); their flags are named after them, unless this table gives
another name.
"""

from typing import Literal, NamedTuple

Group = Literal["Request", "Privacy", "Sampling", "Data", "Inference and output", "Ledger"]


class Flag(NamedTuple):
    """How a key of a spec is stated on the command line.

    Attributes:
        group: the title under which help lists the flag.
        names: its spellings.
        metavar: the placeholder of its value; empty for a switch.
        text: its description; empty if the model describes it.
        switch: the value that a switch states.
        rare: whether lists of common flags leave it out.
    """

    group: Group
    names: tuple[str, ...]
    metavar: str
    text: str = ""
    switch: str = ""
    rare: bool = False


_OUTPUT: Group = "Inference and output"
FLAGS: dict[str, Flag] = {
    "model": Flag("Request", ("--model",), "NAME", "the model; see: dpbayes models"),
    "mechanism": Flag("Request", ("--mechanism",), "NAME", "the mechanism [the model's default]; see: dpbayes models"),
    "column": Flag("Request", ("--column",), "NAME", "the column, or its position; not needed if only one"),
    "by.column": Flag("Request", ("--by",), "COLUMN", "one posterior per value; COUNTY,STATE: two levels"),
    "by.values": Flag("Request", ("--groups",), "FILE", "public values of --by, one a line; or private"),
    "on_invalid": Flag("Request", ("--on-invalid",), "RULE", "invalid records: drop [default] or impute:VALUE"),
    "records": Flag("Request", ("--records",), "N", "the number of records, if public; it is checked"),
    "prior": Flag("Request", ("--prior",), "K=V,...", "the prior, e.g. alpha=2,beta=5"),
    "domain.success": Flag("Request", ("--success",), "TEXT"),
    "domain.failure": Flag("Request", ("--failure",), "TEXT"),
    "domain.categories": Flag("Request", ("--categories",), "A,B,C"),
    "domain.lower": Flag("Request", ("--lower",), "X"),
    "domain.upper": Flag("Request", ("--upper",), "X"),
    "domain.out_of_bounds": Flag("Request", ("--out-of-bounds",), "RULE", rare=True),
    "domain.variance": Flag("Request", ("--variance",), "V"),
    "privacy.epsilon": Flag("Privacy", ("--epsilon", "--eps"), "E", "the epsilon to spend, a decimal"),
    "privacy.neighbors": Flag(
        "Privacy", ("--neighbors",), "RELATION", "neighbors: replace-one [default] or add-remove"
    ),
    "privacy.unit.column": Flag("Privacy", ("--unit",), "COLUMN", "column of the privacy unit's ID, e.g. patient_id"),
    "privacy.unit.max_contributions": Flag(
        "Privacy", ("--max-contributions",), "K", "records kept per unit, by a keyed hash [1]"
    ),
    "bounds.private.epsilon": Flag("Privacy", ("--bounds-epsilon",), "E"),
    "bounds.private.low": Flag("Privacy", ("--bounds-low",), "X"),
    "bounds.private.high": Flag("Privacy", ("--bounds-high",), "X"),
    "bounds.private.lower_quantile": Flag("Privacy", ("--bounds-lower-quantile",), "Q"),
    "bounds.private.upper_quantile": Flag("Privacy", ("--bounds-upper-quantile",), "Q"),
    "bounds.private.cells": Flag("Privacy", ("--bounds-cells",), "N"),
    "source.format": Flag(
        "Data", ("--input-format",), "FORMAT", "file format: csv or parquet [by the file's name]", rare=True
    ),
    "source.delimiter": Flag("Data", ("--delimiter",), "CHAR", "field delimiter: one character, or tab [comma]"),
    "source.quote": Flag("Data", ("--quote",), "CHAR", 'quote character ["]'),
    "source.header": Flag("Data", ("--no-header",), "", "the file has no header; give --columns", "false"),
    "source.columns": Flag("Data", ("--columns",), "A,B,C", "column names, if the file has no header"),
    "source.decimal": Flag("Data", ("--decimal",), "MARK", "decimal mark of numbers in texts: . or , [.]"),
    "source.thousands": Flag("Data", ("--thousands",), "MARK", "mark between thousands: , . ' _ or space [none]"),
    "source.quoted_newlines": Flag(
        "Data", ("--quoted-newlines",), "", "quoted texts may span lines", "true", rare=True
    ),
    "source.engine": Flag("Data", ("--engine",), "NAME", "engine: duckdb [default] or spark (at --master)"),
    "source.master": Flag(
        "Data",
        ("--master",),
        "URL",
        "Spark master: local[N], spark://HOST:PORT, yarn or k8s://... [local[*]]",
        rare=True,
    ),
    "inference.method": Flag(_OUTPUT, ("--inference",), "METHOD", "method: noise-aware [default], chain or naive"),
    "inference.ess": Flag(_OUTPUT, ("--ess",), "N", "effective sample size that chains must reach [400]", rare=True),
    "inference.samples": Flag(_OUTPUT, ("--samples",), "N", "posterior samples to write [4000]"),
    "inference.format": Flag(
        _OUTPUT, ("--samples-format",), "FORMAT", "samples format: parquet [default], csv or netcdf"
    ),
    "inference.pooling": Flag(
        _OUTPUT, ("--pooling",), "HOW", "groups learn from each other: partial [default] or none", rare=True
    ),
    "inference.spread": Flag(
        _OUTPUT, ("--spread",), "X", "how much groups may differ, as a multiple of the default [1]", rare=True
    ),
    "inference.samples_per_group": Flag(
        _OUTPUT, ("--samples-per-group",), "N", "posterior samples of each group to write [0]", rare=True
    ),
    "inference.mcmc_sweeps": Flag(_OUTPUT, ("--mcmc-sweeps",), "N"),
    "inference.state_sampler": Flag(_OUTPUT, ("--state-sampler",), "NAME"),
    "inference.count_prior": Flag(_OUTPUT, ("--count-prior",), "NAME", rare=True),
    "dataset": Flag("Ledger", ("--dataset",), "NAME", "the account that pays [the file's stem]"),
}
LISTS = frozenset({"domain.categories", "source.columns"})
LAYOUT = tuple(key for key in FLAGS if key.startswith("source.") and key not in {"source.engine", "source.master"})
"""The keys of the layout of a file."""
AFTERWARD = ("prior", *(key for key in FLAGS if key.startswith("inference.")))
"""The keys that may be changed after a release."""


def description_of(key: str) -> str:
    """Return the description of a common key."""
    return FLAGS[key].text
