from dpbayes_cli import mechanisms as mechanisms
from dpbayes_cli import models as models
from dpbayes_cli.api.accounts import Accounts as Ledger
from dpbayes_cli.api.analyses import analyze as analyze
from dpbayes_cli.api.analyses import synthesize as synthesize
from dpbayes_cli.api.combined import combine as combine
from dpbayes_cli.api.composed import compose as compose
from dpbayes_cli.api.noisy_tables import infer_table as infer_table
from dpbayes_cli.api.released import evaluate as evaluate
from dpbayes_cli.api.released import infer as infer
from dpbayes_cli.api.released import load_bundle as load_bundle
from dpbayes_cli.api.released import predict as predict
from dpbayes_cli.api.released import release as release
from dpbayes_cli.api.released import report as report
from dpbayes_cli.api.released import verify as verify
from dpbayes_cli.api.request import plan as plan
from dpbayes_cli.api.schedules import ScheduledReleases as Schedule
from dpbayes_cli.base import errors as errors

__all__ = [
    "Ledger",
    "Schedule",
    "analyze",
    "combine",
    "compose",
    "errors",
    "evaluate",
    "infer",
    "infer_table",
    "load_bundle",
    "mechanisms",
    "models",
    "plan",
    "predict",
    "release",
    "report",
    "synthesize",
    "verify",
]
__version__: str
