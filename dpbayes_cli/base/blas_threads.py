"""How many threads linear algebra may use."""

import os


def use_one_blas_thread() -> None:
    """Have linear algebra use one thread in this process and its children; works before NumPy is first imported.

    Its own threads wait for each other by spinning: beside other work, a pass over a design of a million rows and fifty
    columns takes seventeen times as long with them. What is large is divided among threads of ours.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
