"""The command line: find and run a command, and turn an exception into an exit code.

Commands are imported when they are run, so that ``dpbayes --help`` starts fast.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from dpbayes_cli import __version__
from dpbayes_cli.base.blas_threads import use_one_blas_thread
from dpbayes_cli.base.errors import DpbayesError, Interrupted, OutputError, SpecError, nearest_word
from dpbayes_cli.commands import interruption, output

COMMANDS = {
    "release": "Release a private posterior from a data file.",
    "check": "Look for faults in a data file before a release (NOT PRIVATE).",
    "plan": "Show the cost and the precision of a release, without data.",
    "infer": "Analyze a bundle again: free, without data.",
    "predict": "Predict a column of new records from a bundle: free.",
    "analyze": "Regressions, means and tables from a bundle: free.",
    "synthesize": "Draw synthetic tables from a bundle: free.",
    "evaluate": "Score the predictions of a bundle on labeled records.",
    "verify": "Check that a bundle is consistent and was charged.",
    "audit": "Test a privacy guarantee by attacks on made-up data.",
    "report": "Write a bundle as a page or text, with plots.",
    "schedule": "Release many times at one joint cost, charged once.",
    "budget": "Open, show, check, amend and keep privacy budgets.",
    "spec": "Write, check and describe spec files.",
    "experiment": "Run a study of many simulated releases.",
    "models": "List the models.",
    "mechanisms": "List the mechanisms.",
    "explain": "Explain a model or a mechanism.",
    "demo": "Show a first release from beginning to end, on made-up data.",
    "completion": "Print the completion script for a shell.",
}
_TRACE_VERBOSITY = 2
_MAX_MESSAGE = 4000
"""The largest number of characters of a message that are printed."""
_BROKEN_PIPE_EXIT = 128 + 13
_MEANT_FLAGS = {"--account": "--dataset"}
"""Words that users may type as flags because this program uses them, and the flags that they mean."""


class LazyGroup(click.Group):
    """A group whose commands live in ``dpbayes_cli.commands.<name>`` and are imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if no command has this name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"dpbayes_cli.commands.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; if the reader of its output is gone, exit like a process that SIGPIPE ended."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(_BROKEN_PIPE_EXIT) from None
        except EOFError as error:  # Click would treat it as Ctrl-C
            raise RuntimeError("end of file") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest one in a usage error."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpbayes")
def cli() -> None:
    """Release Bayesian posteriors under differential privacy, and keep account of the privacy that releases cost.

    \b
    dpbayes release data.csv --model beta-bernoulli --eps 1

    Exit codes: 0 done, 1 internal error, 2 usage, 3 spec, 4 data source, 5 budget, 6 ledger, 7 verification,
    8 output, 130 interrupted.
    """


def run() -> NoReturn:
    """Run the command line and leave with its exit code."""
    os.umask(0o077)
    gc.set_threshold(100_000, 20, 100)  # a short-lived process: collecting while modules load costs 0.02 s
    warnings.simplefilter("ignore")  # a library's warning could reveal something about a draw
    use_one_blas_thread()
    output.reset()
    interruption.reset()
    _SIGNALS.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    code = _run_command()
    try:
        code = max(code, _flush())
        _ignore_signals()  # the command has ended
    except Interrupted as error:
        _leave_threads(128 + error.signal)
    if (_SIGNALS or code == _BROKEN_PIPE_EXIT) and threading.active_count() > 1:
        _leave_threads(code)
    sys.exit(code)


def _leave_threads(code: int) -> NoReturn:
    """End the process at once: ``sys.exit`` would wait for threads, which may hang on a stalled stream."""
    os._exit(code)


_SIGNALS: list[int] = []
"""Signals received so far, kept because a library may replace the exception that the handler raises."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _ignore_signals()  # a second signal must not interrupt the clean-up
    _SIGNALS.append(number)
    raise Interrupted(number)


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _flush() -> int:
    """Flush stdout and stderr and return an exit code; an error of stderr other than a broken pipe is ignored."""
    code = 0
    for stream, lost in ((sys.stderr, 0), (sys.stdout, OutputError.exit_code)):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            code = _BROKEN_PIPE_EXIT
        except (OSError, ValueError):
            code = max(code, lost)
    if code:
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)  # so that Python's own flush at exit finds no broken pipe
    return code


def _run_command() -> int:
    """Run the command that the arguments name; print its error, if any, and return the exit code."""
    try:
        result = cli.main(prog_name="dpbayes", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Interrupted as error:
        return _interrupted(error)
    except DpbayesError as error:
        _print_error(error)
        _trace(error)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        _with_new_name(error).show(shown)
        output.print_message(shown.getvalue().removesuffix("\n"))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(Interrupted(signal.SIGINT))
    except SystemExit as leaving:  # Click raises it after a shell completion
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:  # noqa: BLE001 - the last resort: a text that could hold a cell is not printed
        if _SIGNALS:
            return _interrupted(Interrupted(_SIGNALS[0]))
        if isinstance(error, OSError) and error.errno:
            output.print_message(f"Error: the operating system failed: {os.strerror(error.errno)}")
            if hint := interruption.explanation():
                output.print_message(f"Hint: {hint}")
        else:
            output.print_message(f"Error: internal error ({type(error).__name__}{_place(error)})")
            output.print_message("Hint: this message holds none of the data; -vv shows where the error arose")
        _trace(error)
        return DpbayesError.exit_code


def _with_new_name(error: click.ClickException) -> click.ClickException:
    """Return the error; if it is about a flag that was renamed, return an error that names the new flag."""
    from dpbayes_cli.spec.version_1 import RENAMED_FLAGS

    if not isinstance(error, click.NoSuchOption):
        return error
    flags = {flag for each in error.ctx.command.params for flag in each.opts} if error.ctx else set()
    if (meant := _MEANT_FLAGS.get(error.option_name)) in flags:
        return click.UsageError(f"{error.message} Did you mean {meant}?", error.ctx)
    if new := RENAMED_FLAGS.get(error.option_name):
        return click.UsageError(f"{error.message} It was renamed: write {new}.", error.ctx)
    close = nearest_word(error.option_name, error.possibilities or ())
    return click.UsageError(f"{error.message}{f' Did you mean {close}?' if close else ''}", error.ctx)


def _interrupted(error: Interrupted) -> int:
    error.hint = error.hint or interruption.explanation()
    _print_error(error)
    return 128 + error.signal


def _print_error(error: DpbayesError | Interrupted) -> None:
    output.print_message(f"Error: {_cut(error.message)}")
    for line in error.details:
        output.print_message(f"  {line}")
    if error.hint:
        output.print_message(f"Hint: {_cut(error.hint)}")
    if isinstance(error, SpecError) and output.is_json():
        mistakes = [{"where": each.where, "message": each.reason, "hint": each.hint} for each in error.mistakes]
        with suppress(OutputError):
            output.emit_json({"ok": False, "mistakes": mistakes})


def _cut(message: str) -> str:
    """Return a message; if it is too long to print, leave out its middle."""
    half = _MAX_MESSAGE // 2
    return message if len(message) <= _MAX_MESSAGE else f"{message[:half]} ... {message[-half:]}"


def _trace(error: BaseException) -> None:
    """Print where an error arose if -vv was given: files, lines and functions, but never values or texts."""
    if output.verbosity() < _TRACE_VERBOSITY:
        return
    from traceback import walk_tb

    current: BaseException | None = error
    while current is not None:
        output.print_message(f"{type(current).__name__} at:")
        for frame, line in walk_tb(current.__traceback__):
            output.print_message(f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _place(error: BaseException) -> str:
    from traceback import walk_tb

    *_, (frame, line) = walk_tb(error.__traceback__)
    return f" at {os.path.basename(frame.f_code.co_filename)}:{line}"  # noqa: PTH119
