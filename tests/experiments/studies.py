"""One small study of every kind: every method, every kind of case, and as little work as possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from dpbayes_cli.experiments.results import GridPoint, Result, Results
from dpbayes_cli.experiments.runner import compute, publish, run_study
from dpbayes_cli.experiments.study import Study


def write_records(place: Path, n: int = 400) -> None:
    """Write the file that small studies learn from: two numbers, three texts, a unit and a week."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.0, 4.0, n), rng.uniform(-1.0, 1.0, n)
    week, unit = rng.integers(5, size=n), rng.integers(3, size=n)
    late = week >= 2 + unit // 2
    kind = np.where(rng.random(n) < 0.7, np.where(late, 0, 2), rng.integers(3, size=n))
    frame = {
        "a": a.round(3),
        "b": b.round(3),
        "y": np.clip(2.0 + 1.5 * a - 2.0 * b + rng.normal(size=n), 0.0, 10.0).round(3),
        "unit": np.array(list("abc"))[unit],
        "week": [f"w{t}" for t in week],
        "kind": np.array(list("xyz"))[kind],
        "hurt": np.where(rng.random(n) < np.where(late, 0.1, 0.5), "yes", "no"),
    }
    pd.DataFrame(frame).to_csv(place / "records.csv", index=False)


SMALL: tuple[dict[str, Any], ...] = tuple(
    yaml.load_all(
        """
name: calibration
seed: 7
trials: 4
draws: 9
n: [10, 40]
epsilon: [0.1]
methods: [noise-aware, naive, ops, non-private]
ops: {draws: 5, temper: joint}
cases:
  coin: {model: beta-bernoulli, prior: {alpha: 10, beta: 10}, support: [0.1, 0.9]}
  dice:
    model: dirichlet-categorical
    domain: {categories: [a, b, c]}
    prior: {concentration: 5}
    parameter: theta[b]
  times:
    model: gamma-exponential
    domain: {upper: 0.9084}
    unclamped: {upper: 1000}
    prior: {shape: 8, rate: 2}
    support: [0.75, 11]
---
study: classification
name: classification
seed: 3
trials: 3
draws: 10
epsilon: [1, 20]
methods: [non-private, laplace, laplace-naive, fourier-laplace, fourier-naive, ops]
cases:
  features:
    model: naive-bayes
    n_train: 60
    n_test: 80
    trials: 2
    domain:
      target: y
      variables:
        y: {values: [0, 1], impute: 0}
        a: {values: [0, 1], impute: 0}
        b: {values: [r, s, t]}
        c: {values: [0, 1], impute: 0}
  chain:
    model: bayes-net
    n_train: 60
    n_test: 80
    epsilon: [5]
    domain:
      target: c
      variables:
        a: {values: [0, 1], impute: 0}
        b: {values: [0, 1], impute: 0, parents: [a]}
        c: {values: [0, 1], impute: 0, parents: [a, b]}
  file:
    model: naive-bayes
    train: records.csv
    test: records.csv
    epsilon: [1]
    domain: {target: hurt, variables: {hurt: {values: [no, yes], impute: no}, kind: {values: [x, y, z], impute: x}}}
---
study: logistic-regression
name: logistic-regression
seed: 4
trials: 3
orders: [1, 10]
epsilon: [0.1, 100]
epsilon_at_delta: [1]
metropolis_steps: 20
methods: [true-posterior, rdp-concentrated, rdp-diffuse, ops, gdp-langevin, minami-langevin]
cases:
  split:
    train: records.csv
    n_train: 160
    beta: 0.01
    target: {column: y, cut: 5, impute: 0}
    features: {b: {lower: -1, upper: 1, impute: 0}, kind: {values: [x, y, z], impute: x}}
  files:
    train: records.csv
    test: records.csv
    beta: 0.01
    target: {column: hurt, values: [no, yes], impute: no}
    features: {a: {lower: 0, upper: 4, impute: 2}}
---
study: linear-regression
name: linear-regression
seed: 4
trials: 3
draws: 10
train_share: 0.3
prior_variance: [0.1, 1]
epsilon: [1, 1000]
methods: [non-private, truncated-sampler]
cases:
  one:
    records: records.csv
    residual_sd: 1
    target: {column: y, lower: 0, upper: 10, impute: 5}
    features: {a: {lower: 0, upper: 4, impute: 2}}
    methods: [non-private, truncated-sampler, noise-aware]
  two:
    records: records.csv
    residual_sd: 1
    target: {column: y, lower: 0, upper: 10, impute: 5}
    features: {a: {lower: 0, upper: 4, impute: 2}, b: {lower: -1, upper: 1, impute: 0}}
---
study: hmm
name: hmm
seed: 5
trials: 2
draws: 5
held_out: 0.2
converged: 20
sweeps: 6
epsilon: [1, 1000]
methods: [non-private, laplace, laplace-naive, ops, gibbs]
cases:
  units:
    records: records.csv
    domain:
      sequence: {column: unit, values: [a, b, c], impute: a}
      time: {column: week, values: [w0, w1, w2, w3, w4], impute: w0}
      features: {kind: {values: [x, y, z], impute: x}, hurt: {values: [no, yes], impute: no}}
    prior: {stay: 2}
---
study: estimation
name: estimation
seed: 2016
trials: 20
epsilon: [0.1]
methods: [non-private, laplace-paper, laplace-naive, laplace, ops]
cases:
  curve: {theta: 0.1, support: [0.05, 0.95], n: [1, 20, 200]}
  shapes: {theta: 0.3, support: [0.2, 0.8], n: [20], epsilon: [1], densities: 3}
---
study: adversarial-data
name: adversarial-data
n: 12
cases: {wide: {support: [0.1, 0.9]}, narrow: {support: [0.2, 0.8], alpha: 2}}
---
study: renyi-curves
name: renyi-curves
weights: [0.3, 1]
highest_order: 20
points: 20
records: [complete, dropped]
cases: {coin: {alpha: 6, beta: 12, n: 100}}
---
study: renyi-utility
name: renyi-utility
orders: [2, 15]
epsilon: [0.01, 0.1, 3]
methods: [rdp-direct, rdp-diffuse, rdp-concentrated, gaussian-paper, gaussian-naive, gaussian, laplace]
cases: {coin: {alpha: 6, beta: 12, n: 20, successes: 8, theta: 0.5}}
---
study: groups
name: groups
seed: 6
trials: 2
epsilon: [1]
methods: [non-private, non-private-true-prior, independent, pooled]
cases: {few: {true_alpha: 4, true_beta: 16, mean_size: 20, shape: 1.5, groups: 30}}
---
study: regression-accuracy
name: regression-accuracy
seed: 12
trials: 2
draws: 20
epsilon: [1]
methods: [non-private, noisy-newton, gibbs-posterior]
cases:
  split:
    train: records.csv
    n_train: 160
    norm: 1.5
    target: {column: hurt, values: [no, yes], impute: no}
    features: {b: {lower: -1, upper: 1, impute: 0}, kind: {values: [x, y, z], impute: x}}
---
study: synthetic
name: synthetic
seed: 6
trials: 3
draws: 60
epsilon: [1]
methods: [non-private, analyze, rubin, rubin-t, plug-in]
tables: 4
rows: 300
cases: {toy: {n: 400, slopes: [1, 0]}}
---
study: benchmark
name: benchmark
seed: 8
trials: 2
draws: 40
sweeps: 20
epsilon: [5]
costs: false
cases:
  coin:
    task: parameter
    spec: {model: beta-bernoulli}
    n: 20
    methods: [non-private, laplace, plug-in, least-squares, bernstein-sheldon, ju]
  dice:
    task: parameter
    spec: {model: dirichlet-categorical, domain: {categories: [a, b, c]}}
    n: 20
    methods: [laplace, least-squares, bernstein-sheldon, ju]
  times:
    task: parameter
    spec: {model: gamma-exponential, domain: {upper: 1}, prior: {shape: 8, rate: 2}}
    n: 20
    methods: [laplace, bernstein-sheldon, ju]
  line:
    task: linear
    records: records.csv
    n: 100
    methods: [non-private, laplace, gaussian, plug-in]
    spec:
      model: linear-regression
      domain: {target: {column: y, lower: 0, upper: 10}, features: {a: {lower: 0, upper: 4}}}
  classes:
    task: logistic
    records: records.csv
    n: 200
    methods: [non-private, noisy-newton, plug-in]
    spec:
      model: logistic-regression
      domain:
        target: {column: hurt, values: [no, yes], impute: no}
        features: {b: {lower: -1, upper: 1, impute: 0}}
  pairs:
    task: pairs
    records: records.csv
    n: 200
    methods: [non-private, private-tree, tree-gaussian, plug-in]
    spec:
      model: bayes-net
      domain:
        target: hurt
        variables:
          unit: {values: [a, b, c], impute: a}
          kind: {values: [x, y, z], impute: x}
          hurt: {values: [no, yes], impute: no}
---
study: regression-calibration
name: regression-calibration
seed: 1
trials: 3
draws: 16
n: [100, 200]
epsilon: [3]
least: 400
methods: [naive]
cases:
  texts: {model: logistic-regression, kind: categorical, features: [1], methods: [noise-aware, naive]}
  counts: {model: poisson-regression, kind: mixed, features: [2]}
  numbers: {model: linear-regression, kind: mixed, features: [3], methods: [noise-aware, naive]}
""",
        yaml.BaseLoader,
    )
)
(
    CALIBRATION, CLASSIFICATION, LOGISTIC, LINEAR, HMM, ESTIMATION, ADVERSARIAL, CURVES, UTILITY, GROUPS, ACCURACY,
    SYNTHETIC, BENCHMARK, REGRESSIONS,
) = SMALL  # fmt: skip


def changed(document: dict[str, Any], *path_and_value: Any) -> dict[str, Any]:
    """Return a study with one value changed, added, or (None) left out."""
    *path, last, value = path_and_value
    document = json.loads(json.dumps(document))
    inside = document
    for key in path:
        inside = inside[key]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return document


def results_of(study: Study) -> Results:
    """Compute a study without a directory."""
    finished = [(point, compute(study, point)) for point in study.grid()]
    return Results(Result(point, each.measures, each.trials) for point, each in finished)


def run(study: Study, out: Path, jobs: int = 1) -> list[GridPoint]:
    """Run a study and publish it; return the points that were computed."""
    computed: list[GridPoint] = []
    publish(out, study, run_study(study, out, jobs, lambda point, *_: computed.append(point)))
    return computed
