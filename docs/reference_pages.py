"""The pages of the reference that follow from the code: commands, specs, models, mechanisms, corrections, Python."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import click
import msgspec

import dpbayes_cli as dpb
from dpbayes_cli.api.combined import CombinedEstimates
from dpbayes_cli.api.posterior import Inferred
from dpbayes_cli.api.released import ReleasedBundle
from dpbayes_cli.api.request import PlannedRequest
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import unwrap
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import Claim, Comparison, GridPoint, PointOutcome
from dpbayes_cli.experiments.study import SimulatedStudy, Study
from dpbayes_cli.main import cli
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.loss_distribution import JointCost
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.spec.bounds_section import BoundsSection
from dpbayes_cli.spec.release_spec import spec_type
from dpbayes_cli.spec.structure_section import StructureSection
from dpbayes_cli.synthesis.analysis_result import Analyzed
from dpbayes_cli.synthesis.records import SyntheticTables
from dpbayes_cli.workflow.expectation import Expectation
from dpbayes_cli.workflow.noisy_table import InferredTable
from dpbayes_cli.workflow.schedule import PricedSchedule

NOTE = "<!-- written by python -m docs.generate -->"
WIDTH = 110
RETURNED = (
    PlannedRequest,
    Expectation,
    ReleasedBundle,
    Inferred,
    Guarantee,
    PricedSchedule,
    JointCost,
    Analyzed,
    SyntheticTables,
    CombinedEstimates,
    InferredTable,
)
"""The classes of the objects that functions of the Python API return."""
STUDY_PARTS = (GridPoint, PointOutcome, Claim, Comparison, Plot)
"""What a study is made of: its points, their numbers, what it claims about them, and its figures."""
INTERNAL = {(Guarantee, "serialize"), (Guarantee, "statement")}
"""Public methods that only the package itself uses."""
ITEM = re.compile(r"^(- |\d\. )")
HEADING = re.compile(r"^(Args|Attributes|Returns|Raises|Privacy|Source): *\n?", re.MULTILINE)


def page(title: str, *lines: str) -> str:
    """Return a page of lines; lines of prose are wrapped."""
    single = [line for text in lines for line in text.split("\n")]
    wrapped = (
        textwrap.fill(
            line,
            WIDTH,
            subsequent_indent=" " * (len(line) - len(ITEM.sub("", line))),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in marked(single)
    )
    return "\n".join([f"# {title}", "", NOTE, *wrapped]).replace("\0", " ") + "\n"


def marked(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; spaces in code, tables and headings become marks that are not wrapped."""
    in_code = False
    for line in lines:
        in_code ^= line.startswith("```")
        yield line.replace(" ", "\0") if in_code or line.startswith(("```", "|", "#")) else line


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(*head: str) -> list[str]:
    """Return the first lines of a table."""
    return ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    """Yield the context and the command of every command, those of sub-groups included."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield inner, command
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def command_line_page() -> str:
    """Return the page of all commands with their options."""
    lines = [
        "",
        "Results go to standard output and messages to standard error. No command asks a question. `--json` prints "
        "one JSON document. The ledger is `--ledger PLACE`, otherwise `$DPBAYES_LEDGER`, otherwise "
        "`dpbayes/ledger.sqlite` in the user's state directory. Flags that only some models or mechanisms have are "
        "listed in [Spec files](spec.md): the flag is the last part of the key, with hyphens.",
    ]
    root = click.Context(cli, info_name="dpbayes", terminal_width=80, **cli.context_settings)
    for context, command in commands(cli, root):
        lines += ["", f"## {context.command_path}", "", "```text", command.get_usage(context), "```", ""]
        for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
            text = paragraph.removeprefix("\b\n")
            fence = "```sh" if text.startswith("dpbayes") else "```text"
            lines += [fence, text, "```", ""] if text != paragraph else [" ".join(text.split()), ""]
        options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
        records = [record for each in options if (record := each.get_help_record(context))]
        lines += [
            *table("option", "meaning")[1:],
            *(f"| `{cell(name)}` | {cell(text)} |" for name, text in records if text != "."),
        ]
    return page("Command line", *lines)


def keys(kind: type[msgspec.Struct], place: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of every key of a section, and of the sections within it."""
    for item in msgspec.structs.fields(kind):
        inner, description = unwrap(item.type)
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from keys(inner, f"{place}{item.name}.")
            continue
        if item.required:
            default = "required"
        elif item.default in {None, msgspec.NODEFAULT} or isinstance(item.default, tuple):
            default = ""
        else:
            default = f"`{str(item.default).lower() if isinstance(item.default, bool) else item.default}`"
        yield place + item.name, default, description
        *_, values = typing.get_args(inner) or (None,)
        if isinstance(values, type) and issubclass(values, Section):
            yield from keys(values, f"{place}{item.name}.NAME.")


def key_table(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return a table of keys."""
    body = [f"| `{name}` | {default} | {cell(description)} |" for name, default, description in rows]
    return [*table("key", "default", "meaning"), *body] if body else []


def spec_page() -> str:
    """Return the page of all keys of specs."""
    other = ("domain", "prior", "model", "mechanism")
    common = [row for row in keys(spec_type("beta-bernoulli")) if row[0].split(".")[0] not in other]
    names = [
        ("model", "required", "the name of a [model](models.md)"),
        ("mechanism", "the model's", "the name of a [mechanism](mechanisms.md)"),
    ]
    of_groups = [row for row in keys(spec_type("beta-bernoulli", has_groups=True)) if row not in common]
    of_groups = [row for row in of_groups if row[0].startswith(("by.", "inference."))]
    lines = [
        "",
        "A spec is a release request in YAML. `dpbayes spec init MODEL` writes a commented one, `dpbayes spec check "
        "FILE` checks it, and `dpbayes spec schema` prints the JSON Schema for editors. Flags override the file.",
        "",
        "## Common keys",
        *key_table(row for row in (*names, *common) if row[1:] != ("", "")),
        "",
        "## Keys of groups",
        "",
        "These keys ask for [one posterior for each group](../how-to/groups.md).",
        *key_table(of_groups),
        "",
        "## Keys of private first steps",
        "",
        "These keys ask for [bounds](../how-to/unknown-bounds.md) or [the tree of a "
        "network](../how-to/private-tree.md) that are found privately. The domain then does not state them.",
        *key_table(itertools.chain(keys(BoundsSection, "bounds."), keys(StructureSection, "structure."))),
        "",
        "## Keys of the models",
    ]
    for name in model_names():
        kind = model_type(name)
        lines += ["", f"### {name}", "", sentence(kind.summary), *key_table(keys(kind.domain_type, "domain."))]
        lines += key_table(keys(kind.prior_type, "prior."))
    lines += ["", "## Options of the mechanisms"]
    for name in mechanism_names():
        mechanism, seen = mechanism_type(name), dict[str, tuple[str, str, str]]()
        for model in map(model_type, model_names()):
            if supports(mechanism, model):
                seen |= {row[0]: row for row in keys(mechanism.options_for(model))}
        lines += ["", f"### {name}", "", sentence(mechanism.summary), *key_table(iter(seen.values()))]
    return page("Spec files", *lines)


def method_lines(subject: type[Model] | type[Mechanism]) -> list[str]:
    """Return the description of a model or a mechanism."""
    lines = ["", f"## {subject.name}", "", sentence(subject.summary)]
    for name, text in dataclasses.asdict(subject.info).items():
        lines += ["", f"**{name.replace('_', ' ').capitalize()}.** {' '.join(text.split()).replace('<', '&lt;')}"]
    return lines


def models_page() -> str:
    """Return the page of all models."""
    mechanisms = [mechanism_type(name) for name in mechanism_names()]
    models = [model_type(name) for name in model_names()]
    serving = {
        model.name: ", ".join(
            f"**`{each.name}`**"
            if each.name in {model.default_mechanism, model.default_with_delta}
            else f"`{each.name}`"
            for each in mechanisms
            if supports(each, model)
        )
        for model in models
    }
    rows = [f"| [`{model.name}`](#{model.name}) | {cell(model.summary)} | {serving[model.name]} |" for model in models]
    described = [line for model in models for line in method_lines(model)]
    table_lines = table("model", "what it is", "mechanisms, the default in bold (if two: `gaussian` with a delta)")
    return page("Models", *table_lines, *rows, *described)


def mechanisms_page() -> str:
    """Return the page of all mechanisms."""
    mechanisms = [mechanism_type(name) for name in mechanism_names()]
    rows = [f"| [`{each.name}`](#{each.name}) | {cell(each.summary)} |" for each in mechanisms]
    described = [line for each in mechanisms for line in method_lines(each)]
    return page("Mechanisms", *table("mechanism", "what it is"), *rows, *described)


def corrections_page() -> str:
    """Return the page of what differs from the papers; subjects with the same corrections share a section."""
    lines = [
        "",
        "Where dpbayes departs from the papers on which it rests, and why. A mechanism or model that is not listed "
        "follows its paper. `dpbayes explain NAME` prints the same text.",
    ]
    shared: dict[str, list[type[Model] | type[Mechanism]]] = {}
    subjects_of: list[type[Model] | type[Mechanism]] = [*map(mechanism_type, mechanism_names())]
    for subject in [*subjects_of, *map(model_type, model_names())]:
        shared.setdefault(subject.info.corrections, []).append(subject)
    for corrections, subjects in shared.items():
        if not corrections.lower().startswith("none"):
            text = " ".join(corrections.split()).replace("<", "&lt;")
            first, *items = re.split(r" ?\(([1-9])\) (?=[A-Z])", text)
            listed = [f"{number}. {item}" for number, item in zip(items[::2], items[1::2], strict=True)]
            lines += ["", f"## {', '.join(subject.name for subject in subjects)}", "", *filter(None, [first, *listed])]
            for subject in subjects:
                of = f" of {subject.name}" if len(subjects) > 1 else ""
                lines += ["", f"Source{of}: {subject.info.source}"]
    return page("Corrections to the papers", *lines)


def plain(text: str | None) -> str:
    """Return a docstring without the marks of reStructuredText."""
    return (text or "").replace("``", "`")


def docstring_lines(text: str) -> list[str]:
    """Return a docstring as Markdown."""
    first, *parts = HEADING.split(plain(text))
    lines: list[str] = []
    for paragraph in first.strip().split("\n\n"):
        lines += (
            ["", "```python", *paragraph.split("\n"), "```"]
            if paragraph.startswith(">>>")
            else ["", " ".join(paragraph.split())]
        )
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in {"Privacy", "Source"}:
            lines += ["", f"**{name}.** {' '.join(body.split())}"]
            continue
        lines += ["", f"**{name}**", "", *(re.sub(r"^([\w, .*]+):", r"- `\1`:", each) for each in joined(body))]
    return lines


def joined(body: str) -> list[str]:
    """Return the entries of a section of a docstring, each in one line."""
    entries: list[str] = []
    for line in textwrap.dedent(body).split("\n"):
        if line.startswith(" ") and entries:
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            entries.append(line.strip())
    return entries


def python_page() -> str:
    """Return the page of the Python API."""
    lines = [
        "",
        "`import dpbayes_cli as dpb` gives what the command line gives, with the same ledger, the same errors and the "
        "same numbers. `dpb.models` and `dpb.mechanisms` hold one function for each model and mechanism, whose keyword "
        "arguments are the keys of its [spec](spec.md): `dpb.models.BetaBernoulli(alpha=2, beta=5)`, "
        '`dpb.mechanisms.Laplace(epsilon="1")`. A number (`Number`) is a text, an integer, a '
        "float or a `Decimal`; a float is taken as its shortest decimal text.",
    ]
    for name in dpb.__all__:
        subject: Any = getattr(dpb, name)
        if inspect.ismodule(subject):
            continue
        lines += [
            "",
            f"## {name}",
            "",
            "```python",
            signature(name, subject),
            "```",
            *docstring_lines(inspect.getdoc(subject) or ""),
        ]
        lines += method_sections(name, subject) if inspect.isclass(subject) else []
    lines += [
        "",
        "## errors",
        "",
        "`dpb.errors` holds the classes of errors; [all messages](errors.md) are listed.",
        "",
    ]
    for kind in (each for each in vars(dpb.errors).values() if inspect.isclass(each) and "exit_code" in vars(each)):
        lines += [f"- `{kind.__name__}`: {plain(inspect.getdoc(kind)).partition(chr(10) * 2)[0]}".replace("\n", " ")]
    lines += ["", "Every error is a `DpbayesError`, with `message` and `hint`:"]
    lines += docstring_lines(inspect.getdoc(dpb.errors.DpbayesError) or "")[2:]
    lines += ["", "## What the functions return", "", "The functions above return objects of these classes."]
    for kind in RETURNED:
        members = inspect.getmembers(kind, lambda each: isinstance(each, property | cached_property))
        properties = [
            f"- `{name}`: {plain(inspect.getdoc(each))}" for name, each in members if not name.startswith("_")
        ]
        lines += ["", f"## {kind.__name__}", *docstring_lines(inspect.getdoc(kind) or "")]
        lines += ["", "**Properties**", "", *properties] if properties else []
        lines += method_sections(kind.__name__, kind)
    return page("Python", *lines)


def extensions_page() -> str:
    """Return the page of the classes that extensions inherit from, with the methods that they must define."""
    lines = [
        "",
        "A new model, mechanism, noise law or study is a subclass of one of these classes. It defines the attributes "
        "and the methods that are listed here. [Contributing](../CONTRIBUTING.md) says where the file goes, and which "
        "tests run by themselves. Other methods have a default, and may be overridden. The last classes are the parts "
        "of a study.",
    ]
    for kind in (NoiseLaw, Mechanism, MethodInfo, Model, Study, SimulatedStudy, *STUDY_PARTS):
        lines += ["", f"## {kind.__name__}", "", f"`from {kind.__module__} import {kind.__name__}`"]
        lines += [*docstring_lines(inspect.getdoc(kind) or ""), "", "**Attributes**", "", *attribute_lines(kind)]
        for name in sorted(getattr(kind, "__abstractmethods__", ())):
            subject = inspect.unwrap(getattr(kind, name))
            lines += ["", f"### {kind.__name__}.{name}"]
            if callable(subject):
                lines += ["", "```python", signature(name, subject), "```"]
            lines += docstring_lines(inspect.getdoc(subject) or "")
    return page("Classes to extend", *lines)


def attribute_lines(kind: type[Any]) -> Iterator[str]:
    """Yield the annotated attributes of a class with the texts beside or below them; required ones have no value."""
    source = inspect.getsource(kind)
    (body,) = (each.body for each in ast.parse(source).body if isinstance(each, ast.ClassDef))
    for node, after in itertools.pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign):
            told = after.value if isinstance(after, ast.Expr) else None
            beside = source.splitlines()[node.lineno - 1 : node.end_lineno][-1].partition("  # ")[2]
            words = " ".join(plain(str(told.value) if isinstance(told, ast.Constant) else beside).split())
            text = f": {words}" if words else ""
            default = "required" if node.value is None else f"default `{ast.unparse(node.value)}`"
            annotation = re.sub(r"^ClassVar\[(.*)\]$", r"\1", ast.unparse(node.annotation))
            yield f"- `{ast.unparse(node.target)}: {annotation}` ({default}){text}"


def method_sections(name: str, kind: type[Any]) -> list[str]:
    """Return the descriptions of the public methods of a class."""
    lines: list[str] = []
    for method, function in inspect.getmembers(kind, inspect.isfunction):
        if not method.startswith("_") and (kind, method) not in INTERNAL:
            lines += ["", f"### {name}.{method}", "", "```python", signature(method, function), "```"]
            lines += docstring_lines(inspect.getdoc(function) or "")
    return lines


def signature(name: str, subject: Any) -> str:
    """Return the signature of a function, one argument a line if it is long; that of a class returns nothing."""
    arguments: list[str] = []
    for each in inspect.signature(subject).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not any(argument.startswith("*") for argument in arguments):
            arguments.append("*")
        annotation = each.annotation if isinstance(each.annotation, str) else each.empty
        arguments.append(str(each.replace(annotation=annotation)).replace(repr(annotation), str(annotation)))
    arguments = [each.replace("'", '"') for each in arguments if each != "self"]
    returned = inspect.signature(subject).return_annotation
    end = ")" if returned in {inspect.Signature.empty, "None"} else f") -> {returned}"
    short = f"{name}({', '.join(arguments)}{end}"
    return short if len(short) <= 90 else f"{name}(\n    " + ",\n    ".join(arguments) + f",\n{end}"


PAGES = {
    "reference/command-line.md": command_line_page,
    "reference/spec.md": spec_page,
    "reference/models.md": models_page,
    "reference/mechanisms.md": mechanisms_page,
    "reference/python.md": python_page,
    "reference/extensions.md": extensions_page,
    "explanation/corrections.md": corrections_page,
}
