"""A commented spec to start from, made from the types that check specs."""

from __future__ import annotations

import types

from dpbayes_cli.core.options import fields_of
from dpbayes_cli.spec.foreign_options import pair_of
from dpbayes_cli.spec.key_lines import key_lines, without_stand_ins
from dpbayes_cli.spec.release_spec import spec_type

_EXAMPLES = {"data": "data.csv"}
_ACTIVE = {"model", "domain", *_EXAMPLES}


def template(model: str, mechanism: str | None = None) -> str:
    """Return a YAML spec for a model and a mechanism (None: the model's default), with optional keys commented out.

    Raises:
        SpecError: there is no such model or mechanism, or the mechanism does not support the model.
    """
    model_class, mechanism_class = pair_of({"model": model, "mechanism": mechanism})
    lines = [f"# A release request: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    own = model_class.first_spec if mechanism_class.needs_n else without_stand_ins(model_class)
    examples = {**_EXAMPLES, **own, "model": model, "mechanism": mechanism_class.name}
    first_values = {**mechanism_class.first_spec, **(model_class.first_spec_drawn if mechanism_class.needs_n else {})}
    active = {*_ACTIVE, *model_class.first_spec, *(word for key in first_values for word in key.split("."))}
    active |= {"mechanism"} if mechanism_class.name != "laplace" else set()
    for item in fields_of(spec_type(model, mechanism_class.name)):
        if item.type in {None, types.NoneType}:  # a key that this model does not have
            continue
        lines += key_lines(item, examples | first_values, active, 0)
    return "\n".join(lines) + "\n"


def table_template() -> str:
    """Return a commented YAML spec of a published table of noisy counts."""
    return _TABLE


_TABLE = """\
# A table of noisy counts that another tool published: dpbayes infer --table FILE --spec THIS_FILE

keys: [region]             # the columns that tell rows apart
counts: [yes, no]          # the columns with noisy counts

noise:                     # the law of the noise that was added to each count
  law: discrete-laplace    # or discrete-gaussian, laplace, gaussian; or none, if the counts are exact
  scale: 2                 # scale b of a Laplace law, standard deviation of a Gaussian law. Instead, one of:
  # variance: 8
  # scale_column: b        # a column that holds the scale of each row
  # variance_column: v     # a column that holds the variance of each row
  # epsilon: 0.5           # Laplace laws: scale = sensitivity / epsilon
  # rho: 0.1               # Gaussian laws: variance = sensitivity^2 / (2 rho)
  # sensitivity: 1         # with epsilon or rho [1]
  # suppressed_below: 90   # smaller noisy counts are not published
# noise_of:                # columns with other noise
#   no: {law: discrete-gaussian, variance: 30}
# suppressed_cells: missing  # the rows of suppressed counts are missing, or: empty (listed with an empty cell)
# non_negative: true       # all counts are at least 0
# prior: power-law         # many counts are small: P(c) falls like (c + 1)^-a, with a inferred [flat]

# totals:                  # what is known exactly
#   - {by: [region], columns: [yes, no], column: people}   # a column holds the total of each region
#   - {columns: [yes, no], total: 1000}                    # of the whole table

infer:
  counts: [yes, no]        # each count
  rates:                   # the probability of a success, for each row
    - {name: approval, successes: yes, failures: no}
    # - {name: approval, successes: yes, of: people}       # successes of a number
    # target: proportion   # the share in the table itself [probability: of the process behind it]
    # by: []               # one rate for the whole table [each row]
    # pooling: partial     # rows have similar probabilities [none]
  # shares:                # the probabilities of categories
  #   - {name: answer, columns: [yes, no, unsure]}         # a column for each category
  #   - {name: answer, columns: [count], over: answer}     # a row for each category: the values of a key
  # sums:
  #   - {name: all answers, columns: [yes, no], by: [region]}
  # differences:
  #   - {name: majority, plus: yes, minus: no}
  #   - name: change       # between the values of a key
  #     plus: {columns: [yes], where: {year: 2025}}
  #     minus: {columns: [yes], where: {year: 2024}}
  #     by: [region]
# delimiter: ","           # between the cells of a CSV file: one character, or tab
"""
