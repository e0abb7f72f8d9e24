"""The page that lists every error message, from the code that raises the errors."""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "dpbayes_cli"
KINDS = {
    "DpbayesError": (1, "The program or the machine failed"),
    "UsageError": (2, "The command line is wrong"),
    "SpecError": (3, "The request is wrong, or no guarantee can be given for it"),
    "SourceError": (4, "The data cannot be used"),
    "BudgetError": (5, "The account does not allow it"),
    "LedgerError": (6, "The ledger cannot be used"),
    "VerificationError": (7, "A bundle or a guarantee does not verify"),
    "OutputError": (8, "The output cannot be written"),
}
"""The classes of errors: exit code and meaning."""
ALSO = {
    "ValueError": (
        (
            "SpecError",
            r"spec|models|experiments|core/(columns|design|private_)|base/(cell_gr|numeric)|privacy/(dag|noisy_descent)",
        ),
        ("LedgerError", r"ledger/(replay|records|schedule)"),
        ("UsageError", r"ledger/union"),
    ),
    "BadParameter": (("UsageError", r"commands"),),
}
"""Errors that become one of ``KINDS``, by the place of the file that raises them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Values = Mapping[str, list[ast.expr]]


class Message(NamedTuple):
    """One error message, with ``...`` where a run fills something in."""

    text: str
    hint: str


def texts(node: ast.expr | None, names: Values) -> list[str]:
    """Return the texts that an expression may have, with ``...`` for what a run computes."""
    match node:
        case None | ast.Constant(value=None):
            return [""]
        case ast.Constant(value=str(text)):
            return [text]
        case ast.FormattedValue(value=ast.Name() as value, conversion=-1):
            return texts(value, names)
        case ast.JoinedStr(values=parts):
            return ["".join(each) for each in product(*(texts(part, names) for part in parts))]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return ["".join(each) for each in product(texts(left, names), texts(right, names))]
        case ast.IfExp(body=body, orelse=other):
            return [*texts(body, names), *texts(other, names)]
        case ast.Name(id=name) if name in names:
            others = {key: value for key, value in names.items() if key != name}
            return list(dict.fromkeys(text for value in names[name] for text in texts(value, others)))
    return ["..."]


def assigned(body: Sequence[ast.stmt], call: ast.expr | None = None) -> dict[str, list[ast.expr]]:
    """Return the expressions that statements may have assigned to each name, up to the statement that holds a call."""
    names: dict[str, list[ast.expr]] = {}
    for statement in body:
        if call is not None and holds(statement, call):
            blocks = [each for key, each in ast.iter_fields(statement) if isinstance(each, list) and key != "targets"]
            inner = next((block for block in blocks if any(holds(each, call) for each in block)), [])
            return names | assigned(inner, call)
        for node in () if isinstance(statement, Function | ast.ClassDef) else ast.walk(statement):
            for name, value in pairs_of(node):
                names[name] = [*([] if node is statement else names.get(name, [])), value]
    return names


def holds(node: ast.AST, call: ast.expr) -> bool:
    """Return whether the lines of a statement, or of a part of it, contain those of a call."""
    first, last = getattr(node, "lineno", math.inf), getattr(node, "end_lineno", 0)
    return bool(first <= call.lineno <= last)


def pairs_of(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names to which a node assigns values, with the values."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=False)
        case ast.Assign(targets=[name], value=value) | ast.NamedExpr(target=name, value=value):
            pairs = zip([name], [value], strict=True)
        case _:
            return
    yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def arguments(call: ast.Call, function: Function) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of the function's parameters."""
    parameters = [
        each.arg for each in (*function.args.args, *function.args.kwonlyargs) if each.arg not in {"self", "cls"}
    ]
    named = {each.arg: each.value for each in call.keywords if each.arg}
    return {**dict(zip(parameters, call.args, strict=False)), **named}


class Module:
    """A module of the package, with its constants, its calls, and the function that holds each call."""

    def __init__(self, path: Path) -> None:
        """Parse the module."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.place, self.constants = str(path.relative_to(PACKAGE)), assigned(tree.body)
        self._scopes: dict[int, Function | ast.Module] = {}
        self.uses: dict[str, list[ast.Call]] = defaultdict(list)
        self._collect(tree, tree)

    def _collect(self, node: ast.AST, scope: Function | ast.Module) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                self._scopes[id(child)] = scope
                self.uses[last_name(child)].append(child)
            self._collect(child, child if isinstance(child, Function) else scope)

    def scope(self, call: ast.Call) -> Function | ast.Module:
        """Return the function that holds a call, or the module."""
        return self._scopes[id(call)]

    def names(self, call: ast.Call) -> dict[str, list[ast.expr]]:
        """Return the expressions of the names that a call may use."""
        return {**self.constants, **assigned(self.scope(call).body, call)}


def messages(module: Module, modules: Sequence[Module]) -> Iterator[tuple[str, Message]]:
    """Yield kind and text of every error that a module makes with a text of its own."""
    for call in (use for uses in module.uses.values() for use in uses):
        if kind := kind_of(call, module.place):
            scope, names = module.scope(call), module.names(call)
            given = []
            if isinstance(scope, Function):
                makes_error = isinstance(scope.body[-1], ast.Return) and scope.body[-1].value is call
                is_shared = (makes_error or isinstance(call.args[0], ast.Name)) and not scope.name.startswith("_")
                given = [
                    {name: [literal(value, each.names(use))] for name, value in arguments(use, scope).items()}
                    for each in (modules if is_shared else [module])
                    for use in each.uses.get(scope.name, ())
                ]
            yield from ((kind, each) for stated in given or [{}] for each in paired(call, {**names, **stated}))


def literal(node: ast.expr, names: Values) -> ast.expr:
    """Return an argument as an expression that has the same texts without the names of its caller."""
    options: list[ast.expr] = [ast.Constant(text) for text in texts(node, names)]
    value = options.pop()
    for each in options:
        value = ast.IfExp(ast.Constant(True), each, value)
    return value


def paired(call: ast.Call, names: Values) -> Iterator[Message]:
    """Yield the texts of an error with their hints: one each if there are as many, else all hints together."""
    hint = next((each.value for each in call.keywords if each.arg == "hint"), None)
    stated = [" ".join(text.split()) for text in texts(call.args[0], names)]
    hints = [" ".join(text.split()).strip() for text in texts(hint, names)]
    if len(hints) != len(stated):
        hints = [" / ".join(filter(None, dict.fromkeys(hints)))] * len(stated)
    for text, each in zip(stated, hints, strict=True):
        if re.search(r"[a-z]{2}", text):
            yield Message(text, each)


def last_name(call: ast.Call) -> str:
    """Return the name of the called function or class, without its module."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def kind_of(node: ast.AST, place: str) -> str:
    """Return the name of the kind of error that a call makes; empty if it makes none."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    name = last_name(node)
    return name if name in KINDS else next((kind for kind, files in ALSO.get(name, ()) if re.match(files, place)), "")


def errors_page() -> str:
    """Return the page that lists every error message by its exit code."""
    known: dict[str, set[Message]] = {name: set() for name in KINDS}
    modules = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    for module in modules:
        for name, message in messages(module, modules):
            known[name].add(message)
    lines = [
        "# Error messages",
        "",
        "A message says what was wrong and what was expected; the hint says what to type next. `...` stands for",
        "what a run fills in: a name, a number, a path; never a cell of the data. If the error is about a key of a",
        "spec, the message begins with the key, as in `domain.upper: missing`.",
    ]
    for name, (code, meaning) in KINDS.items():
        lines += ["", f"## Exit code {code}: {meaning}", "", "| message | hint |", "|---|---|"]
        lines += sorted({f"| {cell(message.text)} | {cell(message.hint)} |" for message in known[name]})
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table, with one ``...`` for two parts without a text between them."""
    return re.sub(r"(?<!\.)\.{6}(?!\.)", "...", text).replace("|", "\\|").replace("<", "&lt;")
