"""The number of threads that linear algebra uses."""

import os


def use_one_blas_thread() -> None:
    """Make linear algebra use one thread in this process and its children; call it before NumPy is first imported.

    BLAS threads wait for each other by spinning. On a busy machine, the spinning made a pass over a design of a million
    rows and fifty columns seventeen times as slow. This package divides large work among its own threads instead.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
