"""The command line: finds the command, runs it, and is the only place that turns an exception into an exit code.

Commands are imported when they are run, so that ``dpbayes --help`` costs no more than Click.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from dpbayes_cli import __version__
from dpbayes_cli.base.blas_threads import single_threaded
from dpbayes_cli.base.errors import BudgetError, DpbayesError, Interrupted, OutputError, VerificationError
from dpbayes_cli.commands import output

COMMANDS = {
    "release": "Release a private posterior from a data file.",
    "plan": "Price a question and simulate its answer, without data.",
    "infer": "Analyze a released bundle again: free, without data.",
    "predict": "Predict a column of new records from a bundle: free.",
    "evaluate": "Score the predictions of a bundle on labelled records.",
    "verify": "Check that a bundle is what it says, and was charged.",
    "audit": "Attack a mechanism with made-up data.",
    "report": "Show a bundle as a page or as text, with plots.",
    "budget": "Open, show, check, amend and keep privacy budgets.",
    "spec": "Write, check and describe spec files.",
    "experiment": "Run a study of many simulated releases.",
    "models": "List the models.",
    "mechanisms": "List the mechanisms.",
    "explain": "Explain a model or a mechanism.",
    "completion": "Print the completion script of a shell.",
}
_TRACE = 2
_MANY = 20
_LONGEST = 4000
"""Characters of a message."""
_BROKEN_PIPE = 128 + 13


class LazyGroup(click.Group):
    """A group whose commands live in ``dpbayes_cli.commands.<name>`` and are imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a user's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"dpbayes_cli.commands.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that has gone away is no error of ours, but not success either."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(_BROKEN_PIPE) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpbayes")
def cli() -> None:
    """Release Bayesian posteriors under differential privacy, with a durable budget ledger.

    \b
    dpbayes release data.csv --model beta-bernoulli --eps 1

    Exit codes: 0 done, 1 internal error, 2 usage, 3 spec, 4 data source, 5 budget, 6 ledger, 7 verification,
    8 output, 130 interrupted.
    """


def run() -> NoReturn:
    """Run the command line and leave with its exit code."""
    os.umask(0o077)
    gc.set_threshold(100_000, 20, 100)  # a short-lived process: collecting while modules load costs 0.02 s
    warnings.simplefilter("ignore")  # a library's warning could tell something about a draw
    single_threaded()
    output.reset()
    _SIGNALS.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    code = _guarded(lambda: cli.main(prog_name="dpbayes", standalone_mode=False))
    code = max(code, _flush())
    if (_SIGNALS or code == _BROKEN_PIPE) and threading.active_count() > 1:
        os._exit(code)  # a thread that waits for a stalled stream, or feeds one, would be waited for
    sys.exit(code)


_SIGNALS: list[int] = []
"""The signal that ended the run; libraries may turn what its handler raises into something else."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)  # what is being cleaned up is not interrupted again
    _SIGNALS.append(number)
    raise Interrupted(number)


def _flush() -> int:
    """Bring the output out; return an exit code. Talk that cannot be written is no failure."""
    code = 0
    for stream, lost in ((sys.stderr, 0), (sys.stdout, OutputError.exit_code)):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            code = _BROKEN_PIPE
        except (OSError, ValueError):
            code = max(code, lost)
    if code:
        _drop_output()
    return code


def _drop_output() -> None:
    """Point the standard streams at nothing, so that Python's own flush at exit finds no broken pipe."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)


def _guarded(action: Callable[[], Any]) -> int:
    """Run an action and translate what it raises; returns an exit code."""
    try:
        try:
            result = action()
            return result if isinstance(result, int) else 0
        except Interrupted as error:
            return _interrupted(error)
        except DpbayesError as error:
            _tell(error)
            _trace(error)
            return error.exit_code
        except click.exceptions.Exit as error:
            return error.exit_code
        except click.ClickException as error:
            shown = io.StringIO()
            error.show(shown)
            output.talk(shown.getvalue().removesuffix("\n"))
            return error.exit_code
        except (KeyboardInterrupt, click.Abort):
            return _interrupted(Interrupted(signal.SIGINT))
        except BrokenPipeError:
            return _BROKEN_PIPE
        except SystemExit as leaving:  # Click leaves so after a completion
            return leaving.code if isinstance(leaving.code, int) else 0
        except Exception as error:  # noqa: BLE001 - the last resort: no text that could hold a cell leaves
            if _SIGNALS:
                return _interrupted(Interrupted(_SIGNALS[0]))
            if isinstance(error, OSError) and error.errno:
                output.talk(f"Error: the operating system failed: {os.strerror(error.errno)}")
                output.talk("Hint: run the same command again to finish a release that had begun")
            else:
                output.talk(f"Error: internal error ({type(error).__name__}{_place(error)})")
                output.talk("Hint: nothing of the data is in this message; -vv shows where it happened")
            _trace(error)
            return DpbayesError.exit_code
    except BrokenPipeError:
        return _BROKEN_PIPE


def _interrupted(error: Interrupted) -> int:
    _tell(error)
    return 128 + error.signal


def _tell(error: DpbayesError | Interrupted) -> None:
    """Print what went wrong and what to do next."""
    output.talk(f"Error: {_cut(error.message)}")
    if isinstance(error, BudgetError):
        for title, components in (
            ("requested", error.requested),
            ("remaining", error.remaining),
            ("missing", error.missing),
        ):
            if components:
                listed = ", ".join(f"{name} {value}" for name, value in components.items())
                output.talk(f"  {title}: {listed}")
        for release_id, what in error.spent_by[-_MANY:]:
            output.talk(f"  spent by {release_id}: {what}")
        if len(error.spent_by) > _MANY:
            output.talk(f"  and by {len(error.spent_by) - _MANY} before; see: dpbayes budget history")
    if isinstance(error, VerificationError):
        for finding in error.findings:
            output.talk(f"  {finding}")
    if error.hint:
        output.talk(f"Hint: {_cut(error.hint)}")


def _cut(message: str) -> str:
    """Return a message whose middle is left out where something absurdly long was given."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"


def _trace(error: BaseException) -> None:
    """Show, when asked with -vv, where an error came from: files, lines and functions, never values or texts."""
    if output.verbosity() < _TRACE:
        return
    current: BaseException | None = error
    while current is not None:
        output.talk(f"{type(current).__name__} at:")
        trace = current.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            output.talk(f"  {code.co_filename}:{trace.tb_lineno} in {code.co_name}")
            trace = trace.tb_next
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""  # noqa: PTH119
