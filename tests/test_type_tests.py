"""What differs by model or by law is a method of it: no code outside asks which model or law it has, or imports one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

from dpbayes_cli.core.registry import MODELS
from tests.conftest import ROOT

PACKAGE = ROOT / "dpbayes_cli"
NAMES_MODELS = ("models/", "experiments/", "core/registry.py", "core/coefficient_law.py")
"""Where a model's name may be written: a study is about one model, and a prior of coefficients may be a normal law."""
SECTIONS_OF_SPECS = "dpbayes_cli.models.families.regression_domain"
"""Parts of a spec, of which files of studies are made too."""
TESTS = {"isinstance", "issubclass"}
CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:", re.MULTILINE)


@cache
def sources() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def classes_of(folder: str) -> set[str]:
    """Return the names of the classes that modules below a folder define."""
    return {name for path, text in sources().items() if path.startswith(folder) for name, _ in CLASS.findall(text)}


FAMILIES = classes_of("models/families/")
CONCRETE = classes_of("models/") - FAMILIES
MENTIONED = re.compile(
    rf"dpbayes_cli\.models|\b({'|'.join(sorted(CONCRETE | FAMILIES))})\b|['\"]({'|'.join(MODELS)})['\"]"
)
"""What a module says that has anything to do with models; the others need not be parsed."""


def names_in(*nodes: ast.AST) -> set[str]:
    walked = [each for node in nodes for each in ast.walk(node)]
    names = {each.id for each in walked if isinstance(each, ast.Name)}
    return names | {each.attr for each in walked if isinstance(each, ast.Attribute)}


def types_asked_for(tree: ast.AST, functions: Set[str] = TESTS) -> Iterator[tuple[int, set[str]]]:
    """Yield line and names of every type, or stored kind of a type, that a module tests for, however it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func) & functions:
            yield node.lineno, names_in(*node.args[1:])
        elif isinstance(node, ast.Compare):
            yield node.lineno, names_in(node.left, *node.comparators)
        elif isinstance(node, ast.MatchClass):
            yield node.cls.lineno, names_in(node.cls)


# --- models ----------------------------------------------------------------------------------------------------------


def imports(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line, module and whether it is for types alone, of every import from ``models/``."""
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in names_in(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from ((node.lineno, name, id(node) in guarded) for name in modules if name.startswith(_MODELS))


_MODELS = "dpbayes_cli.models"


def may_import(path: str, module: str, for_types: bool) -> bool:
    """Return whether a module may import a module of models: a mechanism its capabilities, a study types."""
    if path.startswith("mechanisms/"):
        return module.startswith(f"{_MODELS}.families.")
    return path.startswith("experiments/")


def findings(path: str, source: str) -> list[str]:
    """Return what a module outside ``models/`` does that only models may."""
    if path.startswith("models/") or not MENTIONED.search(source):
        return []
    tree = ast.parse(source)
    forbidden = CONCRETE if path.startswith("mechanisms/") else CONCRETE | FAMILIES
    asked = types_asked_for(tree, TESTS | {"require_type"})
    wrong = [f"{path}:{line} tests for {', '.join(types & forbidden)}" for line, types in asked if types & forbidden]
    wrong += [
        f"{path}:{line} imports {name}" for line, name, typed in imports(tree) if not may_import(path, name, typed)
    ]
    if not path.startswith(NAMES_MODELS):
        constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        wrong += [f"{path}:{node.lineno} names {node.value!r}" for node in constants if node.value in MODELS]
    return wrong


def test_nothing_outside_models_asks_which_model_it_has() -> None:
    assert {"Hmm", "LinearRegression", "NaiveBayes"} <= CONCRETE
    assert {"DiscreteBayesNet", "ConvexLossModel", "BoundedNumber"} <= FAMILIES
    assert [wrong for path, source in sources().items() for wrong in findings(path, source)] == []


def test_asking_for_a_model_is_found() -> None:
    for source in (
        "isinstance(model, NoisyStatistics | DiscreteBayesNet)",
        "issubclass(kind, (Model, families.ConvexLossModel))",
        "require_type(model, LinearRegression).complete_draws(draws)",
        "type(model).__name__ == Hmm.__name__",
        "match model:\n    case Hmm(states=2): pass",
        "def late():\n    import dpbayes_cli.models.families.convex_loss",
        "if TYPE_CHECKING:\n    from dpbayes_cli.models.families.convex_loss import ConvexLossModel",
        "document.model == 'hmm'",
    ):
        assert findings("bundle/report/page.py", source), source
    capability = "from dpbayes_cli.models.families.convex_loss import ConvexLossModel\nexpect(model, ConvexLossModel)"
    assert findings("mechanisms/gibbs.py", capability) == []
    assert findings("mechanisms/gibbs.py", "isinstance(model, Hmm)")
    types = "if TYPE_CHECKING:\n    from dpbayes_cli.models.hmm import Hmm"
    assert findings("experiments/hmm.py", types) == []
    assert findings("workflow/plan.py", types)


# --- laws ------------------------------------------------------------------------------------------------------------


def law_classes() -> dict[str, str]:
    """Return the package of every class below ``StepLaw``."""
    classes = [
        (name, {base.strip() for base in bases.split(",")}, Path(path).parts[0])
        for path, source in sources().items()
        for name, bases in CLASS.findall(source)
    ]
    owners = {"StepLaw": "privacy"}
    while below := {name: owner for name, bases, owner in classes if name not in owners and bases & owners.keys()}:
        owners |= below
    return owners


def laws_asked_for(source: str, laws: Set[str]) -> list[tuple[int, str]]:
    return [(line, name) for line, names in types_asked_for(ast.parse(source)) for name in sorted(names & laws)]


def test_no_code_outside_the_package_of_a_law_asks_which_law_it_has() -> None:
    owners = law_classes()
    assert {"DiscreteLaplace", "PartNoise", "PrivateBounds", "Langevin", "ScalarSampler"} <= owners.keys()
    mention = re.compile(rf"\b({'|'.join(owners)})\b")
    wrong = [
        f"{path}:{line} asks for {name}"
        for path, source in sources().items()
        if mention.search(source)
        for line, name in laws_asked_for(source, owners.keys())
        if owners[name] != Path(path).parts[0]
    ]
    assert wrong == []


def test_asking_for_a_law_is_found() -> None:
    source = "isinstance(law, A | B) or type(law) is B or law.kind == A.kind or isinstance(g, C)"
    assert [name for _, name in laws_asked_for(source, {"A", "B"})] == ["A", "B", "B", "A"]
