from typing import Any

from dpbayes_cli.core.choice import MechanismChoice

def FourierLaplace(*, epsilon: Any = None) -> MechanismChoice: ...
def Gaussian(*, epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None) -> MechanismChoice: ...
def Gibbs(
    *,
    epsilon: Any = None,
    draws: Any = None,
    sweeps: Any = None,
    power_applies_to: Any = None,
    support: Any = None,
    kernel: Any = None,
    log_weight_epsilon: Any = None,
) -> MechanismChoice: ...
def GibbsPosterior(
    *,
    epsilon: Any = None,
    draws: Any = None,
    sampler: Any = None,
    step_size: Any = None,
    n_steps: Any = None,
    max_records: Any = None,
    certificate: Any = None,
    gamma: Any = None,
    delta: Any = None,
    rho: Any = None,
    mu: Any = None,
    order: Any = None,
    calibration: Any = None,
    likelihood_power: Any = None,
) -> MechanismChoice: ...
def Laplace(*, epsilon: Any = None) -> MechanismChoice: ...
def Map(*, epsilon: Any = None, draws: Any = None, selection: Any = None, support: Any = None) -> MechanismChoice: ...
def NoisyNewton(*, epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None) -> MechanismChoice: ...
def Ops(
    *, epsilon: Any = None, draws: Any = None, power_applies_to: Any = None, support: Any = None
) -> MechanismChoice: ...
def RdpConcentrated(
    *,
    epsilon: Any = None,
    delta: Any = None,
    order: Any = None,
    draws: Any = None,
    sampler: Any = None,
    step_size: Any = None,
    n_steps: Any = None,
    max_records: Any = None,
    certificate: Any = None,
    gamma: Any = None,
    likelihood_power: Any = None,
) -> MechanismChoice: ...
def RdpDiffuse(
    *,
    epsilon: Any = None,
    delta: Any = None,
    order: Any = None,
    draws: Any = None,
    sampler: Any = None,
    step_size: Any = None,
    n_steps: Any = None,
    max_records: Any = None,
    certificate: Any = None,
    gamma: Any = None,
) -> MechanismChoice: ...
def RdpDirect(
    *,
    epsilon: Any = None,
    delta: Any = None,
    order: Any = None,
    draws: Any = None,
    sampler: Any = None,
    step_size: Any = None,
    n_steps: Any = None,
    max_records: Any = None,
    certificate: Any = None,
    gamma: Any = None,
) -> MechanismChoice: ...
