"""Formulas of regressions, such as ``income ~ age + sex``: their outcome, predictors and design matrix.

A formula is read by formulaic. Only expressions that mean the same for a cell as for a record are allowed: names of
columns, numbers, operators, ``C(...)`` and a few functions. Transformations such as ``center`` would depend on how
often the cells occur, and any other expression could run code.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.synthesis.cut_numbers import CutNumbers, level_values

_FUNCTIONS = {"C", "I", "exp", "log", "log10", "log2"}
_NODES = (ast.Expression, ast.Call, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
_MAX_DESIGN = 1 << 22
"""The largest allowed product of the number of cells of the predictors and the square of the number of coefficients."""


@dataclass(frozen=True)
class FormulaDesign:
    """A regression on the cells of a joint law.

    Attributes:
        outcome: the index of the outcome.
        predictors: the indices of the predictors.
        names: the names of the coefficients.
        matrix: a row for each combination of the predictors' levels, in C order, shape (n_cells, n_coefficients).
    """

    outcome: int
    predictors: tuple[int, ...]
    names: tuple[str, ...]
    matrix: Floats


def design_of(text: str, law: JointLaw, numbers: Mapping[int, CutNumbers]) -> FormulaDesign:
    """Return the regression that a formula states.

    Columns whose levels are all numbers, and columns with stated bounds, enter as numbers. Other columns enter as
    categories; the first category in the order of the spec is the base.

    Raises:
        SpecError: the formula cannot be read, names an unknown column, or has coefficients that no data determine.
    """
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    try:
        formula = Formula(text)
        outcome, right = list(getattr(formula, "lhs", ())), formula.rhs
        terms = [factor for term in right for factor in term.factors]
    except (FormulaicError, SyntaxError, ValueError, AttributeError):
        raise _mistake(f"{text!r} is not a formula") from None
    if len(outcome) != 1 or len(outcome[0].factors) != 1 or outcome[0].factors[0].expr not in law.names:
        stated = " + ".join(str(term) for term in outcome)
        hint = nearest(stated, law.names) if stated else ""
        raise _mistake("the left side of the formula must be the name of one column", hint)
    target = law.names.index(outcome[0].factors[0].expr)
    named = set().union(*map(_variables, terms)) if terms else set()
    for name in sorted(named - set(law.names)):
        raise _mistake(f"there is no column {name!r}", nearest(name, law.names))
    predictors = tuple(i for i, name in enumerate(law.names) if name in named)
    if target in predictors:
        raise _mistake(f"{law.names[target]!r} is on both sides of the formula")
    sizes = [len(law.columns[i].levels) for i in predictors]
    if math.prod(sizes) > _MAX_DESIGN:
        raise _too_many(math.prod(sizes))
    names, matrix = _matrix(right, _cells(law, predictors, numbers))
    if len(matrix) * len(names) ** 2 > _MAX_DESIGN:
        raise _too_many(len(matrix))
    if not np.isfinite(matrix).all():
        raise _mistake("an expression of the formula is not a number for some values of its columns")
    if not names or np.linalg.matrix_rank(matrix) < len(names):
        raise _mistake("the coefficients are not determined: some terms are sums of others, or there is no term")
    return FormulaDesign(target, predictors, names, matrix)


def _matrix(right: Any, cells: Any) -> tuple[tuple[str, ...], Floats]:
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):
            design = right.get_model_matrix(cells, context={}, na_action="ignore")
    except (FormulaicError, ValueError, TypeError, ArithmeticError):
        raise _mistake("an expression of the formula cannot be computed from the values of its columns") from None
    return tuple(map(str, design.columns)), np.asarray(design, dtype=np.float64)


def _cells(law: JointLaw, predictors: tuple[int, ...], numbers: Mapping[int, CutNumbers]) -> Any:
    """Return a pandas table with a row for each combination of the predictors' levels."""
    import pandas as pd

    codes = np.array(list(itertools.product(*(range(len(law.columns[i].levels)) for i in predictors))), dtype=np.int64)
    columns: dict[str, Any] = {}
    for k, i in enumerate(predictors):
        values = level_values(law.columns[i], numbers.get(i))
        if values is None:
            columns[law.names[i]] = pd.Categorical.from_codes(codes[:, k], list(law.columns[i].levels))
        else:  # whole numbers stay whole, so that C(age) has short names
            columns[law.names[i]] = (values if (values % 1.0).any() else values.astype(np.int64))[codes[:, k]]
    return pd.DataFrame(columns, index=range(len(codes)))


def _variables(factor: Any) -> set[str]:
    """Return the columns in a factor of a formula; refuse what is not allowed in formulas."""
    if factor.eval_method.value == "lookup":
        return {factor.expr}
    if factor.eval_method.value == "literal":
        return set()
    try:
        nodes = list(ast.walk(ast.parse(factor.expr, mode="eval")))
    except SyntaxError:
        raise _mistake(f"{factor.expr!r} cannot be read") from None
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    functions = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) in called}
    plain = all(
        isinstance(node, _NODES) and not (isinstance(node, ast.Constant) and not isinstance(node.value, int | float))
        for node in nodes
    )
    if not plain or not functions <= _FUNCTIONS:
        raise _mistake(f"{factor.expr!r} is not allowed in a formula")
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called}


def _mistake(message: str, hint: str = "") -> SpecError:
    allowed = f"names of columns, + : * - ( ) ** numbers, {', '.join(f'{name}(...)' for name in sorted(_FUNCTIONS))}"
    return SpecError(message, where="formula", hint=hint or f"a formula is OUTCOME ~ TERMS with {allowed}")


def _too_many(n_cells: int) -> SpecError:
    return SpecError(
        f"the predictors have {n_cells:,} combinations of values, too many for this regression",
        where="formula",
        hint="use fewer predictors, or release coarser levels",
    )
