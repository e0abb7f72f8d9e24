"""Analyses on the joint posterior of a bundle: an estimand is computed on the law of every posterior draw, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import Floats, float_text
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.core.columns import CutColumn
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.inference.estimands.cell_regression import FAMILIES, Family, fit_cells
from dpbayes_cli.synthesis.analysis_result import AnalysisRequest, Analyzed
from dpbayes_cli.synthesis.bundle_law import law_of
from dpbayes_cli.synthesis.cut_numbers import CutNumbers, cut_numbers, level_values
from dpbayes_cli.synthesis.formulas import design_of

_MAX_NUMBERS = 1 << 27
"""The largest number of cells times draws."""
_BLOCK_NUMBERS = 1 << 22
_MAX_LISTED = 6
_TINY = 1e-300

MEANING = (
    "Each interval is for the population from which the records come: it covers the uncertainty from the number of "
    "records and from the noise, if the model is right."
)
RELEASED_DRAWS = (
    "The draws are those of the release; dpbayes explain {} says how they differ from draws of the posterior."
)


def analyze(bundle: Bundle, request: AnalysisRequest) -> Analyzed:
    """Compute an estimand on the joint law of every posterior draw of a bundle.

    Raises:
        SpecError: the bundle holds no joint posterior, the request does not fit it, or the network makes the requested
            columns independent whatever the data say.

    Privacy: post-processing of a posterior that was released; nothing is spent.
    Source: derived here: a regression is a functional of the cells' probabilities, by weighted maximum likelihood, so
        that its draws are draws from its posterior.
    """
    _check(request)
    source = law_of(bundle)
    needed = math.ceil(2.0 / (1.0 - request.interval) - 1e-9)
    if source.law.n_draws < needed:
        raise SpecError(
            f"{100 * request.interval:g} % intervals need at least {needed} posterior draws, and the bundle has "
            f"{source.law.n_draws}",
            where="interval",
            hint=f"--interval {float_text(math.floor(1000 - 2000 / source.law.n_draws) / 1000)}",
        )
    analysis = _Analysis(source.law, cut_numbers(source.law, request.bounds or {}))
    title, names, draws = analysis.run(request)
    meaning = RELEASED_DRAWS.format(bundle.document.mechanism) if source.analysis.drawn else MEANING
    notes = (*analysis.notes(), *(() if source.analysis.posterior.warnings else (meaning,)))
    warnings = (*map("WARNING: {}.".format, (*analysis.warnings, *analysis.middles())), *source.warnings)
    return Analyzed(title, names, draws, request.interval, notes, warnings, bundle.document.release_id)


def _check(request: AnalysisRequest) -> None:
    wanted = (request.formula, request.mean, request.table, request.correlation)
    if sum(map(bool, wanted)) != 1:
        raise SpecError(
            "name one analysis",
            where="analysis",
            hint='"income ~ age + sex", or one of --mean income, --table sex,income and --correlation age,income',
        )
    if request.by and not request.mean:
        raise SpecError("--by needs --mean", where="by")
    if (request.family or request.success) and not request.formula:
        raise SpecError("--family and --success need a formula", where="family")
    if not 0.0 < request.interval < 1.0:
        raise SpecError("an interval needs a probability between 0 and 1", where="interval")


Result = tuple[str, tuple[str, ...], Floats]


class _Analysis:
    """One analysis; it collects the columns that it used, and warnings."""

    def __init__(self, law: JointLaw, numbers: Mapping[int, CutNumbers]) -> None:
        self.law, self.numbers = law, numbers
        self.used: list[int] = []
        self.as_numbers: set[int] = set()
        self.warnings: list[str] = []

    def run(self, request: AnalysisRequest) -> Result:
        """Return a title, the names of the estimated numbers, and their draws."""
        by = self._indices(request.by)
        if self.law.unknown_shares and not (request.mean and set(self.law.unknown_shares) <= set(by)):
            names = " and ".join(repr(self.law.names[i]) for i in self.law.unknown_shares)
            raise SpecError(
                f"the release does not estimate how often each {names} occurs: only a mean or shares given both can be "
                "computed; no table, correlation or regression",
                where="analysis",
                hint=f"--mean COLUMN --by {','.join(self.law.names[i] for i in self.law.unknown_shares)}",
            )
        if request.mean:
            return self._mean(self._indices((request.mean,))[0], by)
        if request.table:
            return self._table(self._indices(request.table))
        if request.correlation:
            return self._correlation(self._indices(request.correlation))
        return self._regression(request)

    def notes(self) -> list[str]:
        """Return which of the used columns entered the analysis as intervals."""
        return [
            f"{name} enters as intervals; for numbers, state its bounds: --bounds {name}=LOW:HIGH."
            for i, name in enumerate(self.law.names)
            if i in self.used and i not in self.numbers and isinstance(self.law.columns[i], CutColumn)
        ]

    def middles(self) -> list[str]:
        """Return warnings about the used columns whose numbers are replaced by the middles of intervals."""
        return [
            f"{self.law.names[i]} enters as the middles of its intervals, {numbers}; the result depends on these "
            "bounds, and its intervals leave out the error of the middles"
            for i, numbers in self.numbers.items()
            if i in self.used and i in self.as_numbers
        ]

    def _indices(self, names: Sequence[str]) -> tuple[int, ...]:
        for name in names:
            if name not in self.law.names:
                raise SpecError(f"there is no column {name!r}", where="analysis", hint=nearest(name, self.law.names))
        if len(set(names)) < len(names):
            raise SpecError("a column is named twice", where="analysis")
        return tuple(self.law.names.index(name) for name in names)

    def _margin(self, wanted: Sequence[int]) -> Floats:
        """Return the joint law of columns given each draw; note which independences it assumes."""
        self.used = sorted(wanted)
        cells = math.prod(len(self.law.columns[i].levels) for i in wanted)
        if cells * self.law.n_draws > _MAX_NUMBERS:
            raise SpecError(
                f"the columns have {cells:,} combinations of values, too many for {self.law.n_draws:,} posterior draws",
                where="analysis",
                hint="analyze fewer columns",
            )
        missing = [pair for pair in self.law.missing_edges(wanted) if not set(pair) <= set(self.law.unknown_shares)]
        if missing:
            pairs = [f"{self.law.network.names[i]} - {self.law.network.names[j]}" for i, j in missing[:_MAX_LISTED]]
            more = f" and {len(missing) - _MAX_LISTED} more" if missing[_MAX_LISTED:] else ""
            asked = {i for pair in missing for i in pair} <= set(wanted)
            why = "" if asked else ", on which the columns asked for depend"
            self.warnings.append(
                f"the network has no edge {', '.join(pairs)}{more}{why}: these columns are assumed independent given "
                "others, and the intervals hold only if they are"
            )
        return self.law.margin(wanted)

    def _require_dependence(self, first: int, others: Sequence[int]) -> None:
        """Refuse a column that the network makes independent of another given the rest, whatever the data say."""
        for other in others:
            rest = [i for i in others if i != other]
            if self.law.are_separated(first, other, rest):
                a, b = self.law.names[first], self.law.names[other]
                about = f" given {', '.join(self.law.names[i] for i in rest)}" if rest else ""
                raise SpecError(
                    f"the network has no edge {a} - {b} and makes them independent{about}, whatever the data say",
                    where="analysis",
                    hint="release a network with this edge",
                )

    def _values(self, i: int) -> Floats | None:
        self.as_numbers.add(i)
        return level_values(self.law.columns[i], self.numbers.get(i))

    def _cells(self, columns: Sequence[int]) -> list[str]:
        levels = (self.law.columns[i].levels for i in columns)
        names = [self.law.names[i] for i in columns]
        return [",".join(map("=".join, zip(names, row, strict=True))) for row in itertools.product(*levels)]

    def _mean(self, column: int, by: tuple[int, ...]) -> Result:
        if column in by:
            raise SpecError("a column is named twice", where="by")
        self._require_dependence(column, [i for i in by if i not in self.law.unknown_shares])
        n, size = self.law.n_draws, len(self.law.columns[column].levels)
        joint = self._margin((*by, column)).reshape(n, -1, size)
        conditional = joint / np.maximum(joint.sum(axis=-1, keepdims=True), _TINY)
        groups = [f"|{cell}" for cell in self._cells(by)] if by else [""]
        name, values = self.law.names[column], self._values(column)
        title = f"{'mean' if values is not None else 'shares'} of {name}" + (
            f" by {', '.join(self.law.names[i] for i in by)}" if by else ""
        )
        if values is not None:
            return title, tuple(f"mean[{name}{group}]" for group in groups), conditional @ values
        levels = self.law.columns[column].levels
        return (
            title,
            tuple(f"share[{name}={level}{group}]" for group in groups for level in levels),
            conditional.reshape(n, -1),
        )

    def _table(self, columns: tuple[int, ...]) -> Result:
        for first, second in itertools.combinations(columns, 2):
            self._require_dependence(first, (second,))
        joint = self._margin(columns).reshape(self.law.n_draws, -1)
        title = f"joint shares of {', '.join(self.law.names[i] for i in columns)}"
        return title, tuple(f"share[{cell}]" for cell in self._cells(columns)), joint

    def _correlation(self, columns: tuple[int, ...]) -> Result:
        if len(columns) != 2:
            raise SpecError("a correlation needs two columns", where="correlation", hint="--correlation age,income")
        first, second = columns
        self._require_dependence(first, (second,))
        scores = []
        for i in columns:
            values, levels = self._values(i), self.law.columns[i].levels
            if values is None and len(levels) == 2:
                values = np.array([0.0, 1.0])
            if values is None:
                raise SpecError(
                    f"{self.law.names[i]!r} is neither a number nor a column with two values",
                    where="correlation",
                    hint=f"--bounds {self.law.names[i]}=LOW:HIGH"
                    if isinstance(self.law.columns[i], CutColumn)
                    else f"--table {self.law.names[first]},{self.law.names[second]}",
                )
            scores.append(values)
        joint = self._margin(columns)
        means = [joint.sum(axis=2) @ scores[0], joint.sum(axis=1) @ scores[1]]
        x, y = (values - mean[:, None] for values, mean in zip(scores, means, strict=True))
        covariance = np.einsum("dij,di,dj->d", joint, x, y)
        variance = np.einsum("dij,di->d", joint, x**2) * np.einsum("dij,dj->d", joint, y**2)
        names = ",".join(self.law.names[i] for i in columns)
        correlation = covariance / np.sqrt(np.maximum(variance, _TINY))
        return f"correlation of {names.replace(',', ' and ')}", (f"correlation[{names}]",), correlation[:, None]

    def _regression(self, request: AnalysisRequest) -> Result:
        design = design_of(str(request.formula), self.law, self.numbers)
        self._require_dependence(design.outcome, design.predictors)
        family, scores, modeled = self._outcome(design.outcome, request.family, request.success)
        joint = self._margin((*design.predictors, design.outcome))
        joint = joint.reshape(len(joint), len(design.matrix), -1)
        self.as_numbers.update(design.predictors)
        block = max(_BLOCK_NUMBERS // len(design.matrix), 1)
        fits = [
            fit_cells(design.matrix, part.sum(axis=-1), part @ scores, family)
            for part in (joint[k : k + block] for k in range(0, len(joint), block))
        ]
        infinite = len(joint) - sum(int(fit.finite.sum()) for fit in fits)
        if infinite:
            self.warnings.append(
                f"in {infinite:,} of {len(joint):,} draws no finite coefficients have the largest likelihood, so that "
                "the ends of some intervals are arbitrary"
            )
        title = f"{family} regression of {modeled} on {str(request.formula).partition('~')[2].strip()}"
        return title, design.names, np.concatenate([fit.coefficients for fit in fits])

    def _outcome(self, outcome: int, family: Family | None, success: str | None) -> tuple[Family, Floats, str]:
        """Return the family, the outcome's number for each level, and what is modeled."""
        name, levels, values = self.law.names[outcome], self.law.columns[outcome].levels, self._values(outcome)
        family = family or ("logistic" if success is not None or len(levels) == 2 else "linear")
        if family not in FAMILIES:
            raise SpecError(f"there is no family {family!r}", where="family", hint=nearest(family, FAMILIES))
        if family == "logistic":
            if success is None and len(levels) == 2:
                success = levels[1]
            if success not in levels:
                what = "name the level whose probability is modeled" if success is None else f"no level {success!r}"
                raise SpecError(f"{name!r}: {what}", where="success", hint=f"--success {levels[-1]!r}")
            return family, np.array([float(level == success) for level in levels]), f"{name} = {success}"
        if success is not None:
            raise SpecError("--success is for logistic regressions only", where="success")
        if values is None or (family == "poisson" and (values < 0.0).any()):
            kind = "numbers" if family == "linear" else "numbers that are not negative"
            raise SpecError(
                f"the values of {name!r} are not {kind}, which a {family} regression needs",
                where="formula",
                hint=f"--bounds {name}=LOW:HIGH"
                if isinstance(self.law.columns[outcome], CutColumn)
                else "--family logistic",
            )
        return family, values, name
