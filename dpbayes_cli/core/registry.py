"""The names of models, mechanisms and noise laws in specs and documents. A class is imported when it is used first.

Third parties register their classes through the entry-point groups ``dpbayes.models``, ``dpbayes.mechanisms`` and
``dpbayes.noise_laws`` (unstable): the name of an entry point is the name in specs and documents, and its object is the
class.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MODELS: Mapping[str, str] = MappingProxyType(
    {
        "bayes-net": "dpbayes_cli.models.bayes_net:BayesNet",
        "beta-bernoulli": "dpbayes_cli.models.beta_bernoulli:BetaBernoulli",
        "beta-geometric": "dpbayes_cli.models.beta_geometric:BetaGeometric",
        "dirichlet-categorical": "dpbayes_cli.models.dirichlet_categorical:DirichletCategorical",
        "gamma-exponential": "dpbayes_cli.models.gamma_exponential:GammaExponential",
        "gamma-poisson": "dpbayes_cli.models.gamma_poisson:GammaPoisson",
        "hmm": "dpbayes_cli.models.hmm:Hmm",
        "huber-regression": "dpbayes_cli.models.huber_regression:HuberRegression",
        "linear-regression": "dpbayes_cli.models.linear_regression:LinearRegression",
        "logistic-regression": "dpbayes_cli.models.logistic_regression:LogisticRegression",
        "multivariate-normal": "dpbayes_cli.models.multivariate_normal:MultivariateNormal",
        "naive-bayes": "dpbayes_cli.models.naive_bayes:NaiveBayes",
        "naive-bayes-mixture": "dpbayes_cli.models.naive_bayes_mixture:NaiveBayesMixture",
        "normal": "dpbayes_cli.models.normal:Normal",
        "normal-mean": "dpbayes_cli.models.normal_mean:NormalMean",
        "poisson-regression": "dpbayes_cli.models.poisson_regression:PoissonRegression",
        "probit-regression": "dpbayes_cli.models.probit_regression:ProbitRegression",
        "quantile-regression": "dpbayes_cli.models.quantile_regression:QuantileRegression",
        "svm": "dpbayes_cli.models.svm:Svm",
    }
)
MECHANISMS: Mapping[str, str] = MappingProxyType(
    {
        "fourier-laplace": "dpbayes_cli.mechanisms.fourier_laplace:FourierLaplace",
        "gaussian": "dpbayes_cli.mechanisms.gaussian:Gaussian",
        "gibbs": "dpbayes_cli.mechanisms.gibbs:Gibbs",
        "gibbs-posterior": "dpbayes_cli.mechanisms.gibbs_posterior:GibbsPosterior",
        "laplace": "dpbayes_cli.mechanisms.laplace:Laplace",
        "map": "dpbayes_cli.mechanisms.map:Map",
        "noisy-newton": "dpbayes_cli.mechanisms.noisy_newton:NoisyNewton",
        "ops": "dpbayes_cli.mechanisms.ops:Ops",
        "rdp-concentrated": "dpbayes_cli.mechanisms.rdp_concentrated:RdpConcentrated",
        "rdp-diffuse": "dpbayes_cli.mechanisms.rdp_diffuse:RdpDiffuse",
        "rdp-direct": "dpbayes_cli.mechanisms.rdp_direct:RdpDirect",
    }
)
NOISE_LAWS: Mapping[str, str] = MappingProxyType(
    {
        "discrete-gaussian": "dpbayes_cli.privacy.laws.discrete_gaussian:DiscreteGaussian",
        "discrete-laplace": "dpbayes_cli.privacy.laws.discrete_laplace:DiscreteLaplace",
        "rounded-gaussian": "dpbayes_cli.privacy.laws.rounded_gaussian:RoundedGaussian",
    }
)

INSTALL_HINT = "if another package provides it, install that package"
_NOISE_LAW = "noise law"
_UNBOUNDED = {"probit": "probit", "cloglog-regression": "complementary log-log"}


def model_type(name: str) -> type[Model]:
    """Return the class of a model.

    Raises:
        SpecError: there is no such model; the hint gives the most similar name.
    """
    if name in _UNBOUNDED:
        raise SpecError(
            f"the log likelihood of {_UNBOUNDED[name]} regression has unbounded gradients: one record may change the "
            "posterior by any amount, so that no chain on it is private",
            where="model",
            hint="use probit-regression (canonical) or logistic-regression",
        )
    return cast(type[Model], _load(name, MODELS, "dpbayes.models", "model"))


def mechanism_type(name: str) -> type[Mechanism]:
    """Return the class of a mechanism.

    Raises:
        SpecError: there is no such mechanism; the hint gives the most similar name.
    """
    return cast(type[Mechanism], _load(name, MECHANISMS, "dpbayes.mechanisms", "mechanism"))


def noise_law_type(kind: str) -> type[NoiseLaw]:
    """Return the class of a noise law.

    Raises:
        ValueError: there is no such law.
    """
    if kind not in NOISE_LAWS and kind not in noise_law_kinds():
        raise ValueError(f"unknown noise law {kind!r}; {INSTALL_HINT}")
    return cast(type[NoiseLaw], _load(kind, NOISE_LAWS, "dpbayes.noise_laws", _NOISE_LAW))


def noise_law_kinds() -> list[str]:
    """Return the names of all noise laws, third parties' included."""
    return sorted({*NOISE_LAWS, *_entry_points("dpbayes.noise_laws")})


def plug_ins_of(model: str, mechanism: str, noise_law: str | None) -> dict[tuple[str, str], list[str]]:
    """Return the packages of third parties that a release uses: for each name and version, what comes from it."""
    used = (("model", MODELS, model), ("mechanism", MECHANISMS, mechanism), (_NOISE_LAW, NOISE_LAWS, noise_law))
    packages: dict[tuple[str, str], list[str]] = {}
    for what, built_in, name in used:
        if name is None or name in built_in:
            continue
        point = _entry_points(f"dpbayes.{what.replace(' ', '_')}s").get(name)
        if point is not None and point.dist is not None:
            packages.setdefault((point.dist.name, point.dist.version), []).append(f"the {what} {name}")
    return packages


def model_names() -> list[str]:
    """Return the names of all models, third parties' included."""
    return sorted({*MODELS, *_entry_points("dpbayes.models")})


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms, third parties' included."""
    return sorted({*MECHANISMS, *_entry_points("dpbayes.mechanisms")})


def supports(mechanism: type[Mechanism], model: type[Model]) -> bool:
    """Return whether a model has the capability that a mechanism requires."""
    return issubclass(model, mechanism.requires)


def supporting_mechanisms(model: type[Model]) -> list[str]:
    """Return the names of the mechanisms that support a model."""
    return [name for name in mechanism_names() if supports(mechanism_type(name), model)]


def supported_pairs() -> list[tuple[type[Model], type[Mechanism]]]:
    """Return every model with every mechanism that supports it."""
    mechanisms = [mechanism_type(name) for name in mechanism_names()]
    models = [model_type(name) for name in model_names()]
    return [(model, mechanism) for model in models for mechanism in mechanisms if supports(mechanism, model)]


def check_supports(mechanism: type[Mechanism], model: type[Model]) -> None:
    """Refuse a mechanism that does not support a model.

    Raises:
        SpecError: the model lacks the required capability; the hint lists the mechanisms that support it.
    """
    if not supports(mechanism, model):
        raise SpecError(
            f"mechanism {mechanism.name!r} does not support model {model.name!r}",
            where="mechanism",
            hint=f"allowed: {', '.join(supporting_mechanisms(model))}",
        )


def _load(name: str, built_in: Mapping[str, str], group: str, what: str) -> Any:
    if name in built_in:
        module, _, attribute = built_in[name].partition(":")
        return getattr(import_module(module), attribute)
    registered = _entry_points(group)
    if name not in registered:
        raise SpecError(f"there is no {what} {name!r}", where=what, hint=nearest(name, {*built_in, *registered}))
    return _load_plug_in(registered[name], what)


def _load_plug_in(entry_point: EntryPoint, what: str) -> Any:
    """Return the class of an entry point.

    Raises:
        SpecError: the class cannot be imported, or has another name than the entry point.
    """
    package = "unknown" if entry_point.dist is None else entry_point.dist.name
    place = f"the package {package!r} registers the {what} {entry_point.name!r}"
    try:
        subject = entry_point.load()
    except Exception as error:
        hint = f"update or uninstall {package}"
        raise SpecError(
            f"{place}, but {entry_point.value} cannot be imported ({type(error).__name__})", hint=hint
        ) from error
    attribute = "kind" if what == _NOISE_LAW else "name"
    stated = getattr(subject, attribute, None)
    if stated != entry_point.name:
        hint = f"in the pyproject.toml of {package}, name the entry point {stated}" if stated else ""
        raise SpecError(f"{place}, but {entry_point.value}.{attribute} is {stated!r}", hint=hint)
    return subject


def _entry_points(group: str) -> dict[str, EntryPoint]:
    return _entry_points_on(group, tuple(sys.path))


@functools.cache
def _entry_points_on(group: str, _path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}
