"""The common keys of a spec: each with its flag and what it says, once, for specs, schema and help.

Light on purpose: the help of a command without a model imports nothing else. Options of a mechanism or a model say
themselves what they mean (``core/options.py``), and their flags are named after them unless this table names another.
"""

from typing import Literal, NamedTuple

Group = Literal["Request", "Privacy", "Sampling", "Data", "Inference and output", "Ledger"]


class Flag(NamedTuple):
    """How a key of a spec is stated on the command line.

    Attributes:
        group: under which title it is listed.
        names: its spellings.
        metavar: what stands for its value; empty for a switch.
        text: what it says; empty where the section of the model says it.
        switch: what a switch states.
        rare: whether it is left out where common flags are listed.
    """

    group: Group
    names: tuple[str, ...]
    metavar: str
    text: str = ""
    switch: str = ""
    rare: bool = False


FLAGS: dict[str, Flag] = {
    "model": Flag("Request", ("--model",), "NAME", "the model; see: dpbayes models"),
    "mechanism": Flag("Request", ("--mechanism",), "NAME", "the mechanism [the model's own]; see: dpbayes models"),
    "column": Flag("Request", ("--column",), "NAME", "the column; not needed if there is only one"),
    "on_invalid": Flag("Request", ("--on-invalid",), "RULE", "invalid records: drop [default] or impute:VALUE"),
    "records": Flag("Request", ("--records",), "N", "the public number of records, checked"),
    "prior": Flag("Request", ("--prior",), "K=V,...", "the prior, e.g. alpha=2,beta=5"),
    "domain.success": Flag("Request", ("--success",), "TEXT"),
    "domain.failure": Flag("Request", ("--failure",), "TEXT"),
    "domain.categories": Flag("Request", ("--categories",), "A,B,C"),
    "domain.lower": Flag("Request", ("--lower",), "X"),
    "domain.upper": Flag("Request", ("--upper",), "X"),
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
    "source.format": Flag("Data", ("--input-format",), "FORMAT", "file format: csv or parquet [by the file's name]"),
    "source.delimiter": Flag("Data", ("--delimiter",), "CHAR", "field delimiter: one character, or tab [,]"),
    "source.quote": Flag("Data", ("--quote",), "CHAR", 'quote character ["]'),
    "source.header": Flag("Data", ("--no-header",), "", "the file has no header; give --columns", "false"),
    "source.columns": Flag("Data", ("--columns",), "A,B,C", "column names, if the file has no header"),
    "source.quoted_newlines": Flag("Data", ("--quoted-newlines",), "", "quoted texts may span lines", "true"),
    "source.engine": Flag("Data", ("--engine",), "NAME", "engine: duckdb [default] or spark (at --master)"),
    "source.master": Flag("Data", ("--master",), "URL", "with spark: where it runs [local[*]]", rare=True),
    "inference.method": Flag(
        "Inference and output", ("--inference",), "METHOD", "method: noise-aware [default], chain or naive"
    ),
    "inference.ess": Flag(
        "Inference and output", ("--ess",), "N", "effective draws that chains must reach [400]", rare=True
    ),
    "inference.samples": Flag("Inference and output", ("--samples",), "N", "posterior samples to write [4000]"),
    "inference.format": Flag(
        "Inference and output", ("--samples-format",), "FORMAT", "samples format: parquet [default], csv or netcdf"
    ),
    "inference.mcmc_sweeps": Flag("Inference and output", ("--mcmc-sweeps",), "N"),
    "inference.state_sampler": Flag("Inference and output", ("--state-sampler",), "NAME"),
    "dataset": Flag("Ledger", ("--dataset",), "NAME", "the account that pays [the file's stem]"),
}
LISTS = frozenset({"domain.categories", "source.columns"})
LAYOUT = tuple(key for key in FLAGS if key.startswith("source.") and key not in {"source.engine", "source.master"})
"""How a file is laid out."""
AFTERWARDS = ("prior", *(key for key in FLAGS if key.startswith("inference.")))
"""What is open to change in a release that is made."""


def said(key: str) -> str:
    """Return what a common key says."""
    return FLAGS[key].text
