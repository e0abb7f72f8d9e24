from typing import Any

from dpbayes_cli.core.choice import ModelChoice

def BayesNet(*, variables: Any = None, target: Any = None, concentration: Any = None) -> ModelChoice: ...
def BetaBernoulli(*, success: Any = None, failure: Any = None, alpha: Any = None, beta: Any = None) -> ModelChoice: ...
def BetaGeometric(
    *, upper: Any = None, out_of_bounds: Any = None, alpha: Any = None, beta: Any = None
) -> ModelChoice: ...
def DirichletCategorical(*, categories: Any = None, concentration: Any = None) -> ModelChoice: ...
def GammaExponential(
    *, upper: Any = None, out_of_bounds: Any = None, shape: Any = None, rate: Any = None
) -> ModelChoice: ...
def GammaPoisson(
    *, upper: Any = None, out_of_bounds: Any = None, shape: Any = None, rate: Any = None
) -> ModelChoice: ...
def Hmm(
    *,
    sequence: Any = None,
    time: Any = None,
    features: Any = None,
    states: Any = None,
    initial: Any = None,
    transition: Any = None,
    stay: Any = None,
    emission: Any = None,
) -> ModelChoice: ...
def HuberRegression(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    scale: Any = None,
    threshold: Any = None,
    precision: Any = None,
) -> ModelChoice: ...
def LinearRegression(
    *,
    target: Any = None,
    features: Any = None,
    variance: Any = None,
    mean: Any = None,
    deviation: Any = None,
    strength: Any = None,
    slope_strength: Any = None,
    variance_strength: Any = None,
    spread: Any = None,
) -> ModelChoice: ...
def LogisticRegression(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    effect: Any = None,
    spread: Any = None,
    precision: Any = None,
    law: Any = None,
    freedom: Any = None,
    mean: Any = None,
    scale: Any = None,
    correlations: Any = None,
    origin: Any = None,
) -> ModelChoice: ...
def MultivariateNormal(
    *,
    columns: Any = None,
    mean: Any = None,
    deviation: Any = None,
    strength: Any = None,
    freedom: Any = None,
    variance_scale: Any = None,
    spread: Any = None,
) -> ModelChoice: ...
def NaiveBayes(*, target: Any = None, variables: Any = None, concentration: Any = None) -> ModelChoice: ...
def NaiveBayesMixture(
    *, variables: Any = None, classes: Any = None, prior_classes: Any = None, concentration: Any = None
) -> ModelChoice: ...
def Normal(
    *,
    lower: Any = None,
    upper: Any = None,
    out_of_bounds: Any = None,
    spread: Any = None,
    mean: Any = None,
    strength: Any = None,
    shape: Any = None,
    rate: Any = None,
) -> ModelChoice: ...
def NormalMean(
    *,
    lower: Any = None,
    upper: Any = None,
    variance: Any = None,
    out_of_bounds: Any = None,
    margin: Any = None,
    mean: Any = None,
    prior_variance: Any = None,
) -> ModelChoice: ...
def PoissonRegression(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    effect: Any = None,
    spread: Any = None,
    precision: Any = None,
    law: Any = None,
    freedom: Any = None,
    mean: Any = None,
    scale: Any = None,
    correlations: Any = None,
    origin: Any = None,
) -> ModelChoice: ...
def ProbitRegression(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    likelihood: Any = None,
    effect: Any = None,
    spread: Any = None,
    precision: Any = None,
    law: Any = None,
    freedom: Any = None,
    mean: Any = None,
    scale: Any = None,
    correlations: Any = None,
    origin: Any = None,
) -> ModelChoice: ...
def QuantileRegression(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    scale: Any = None,
    level: Any = None,
    smoothing: Any = None,
    precision: Any = None,
) -> ModelChoice: ...
def Svm(
    *,
    target: Any = None,
    features: Any = None,
    intercept: Any = None,
    norm: Any = None,
    smoothing: Any = None,
    precision: Any = None,
) -> ModelChoice: ...
