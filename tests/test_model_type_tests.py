"""What differs by model is a method of it: nothing outside ``models/`` asks which model it has, or imports one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpbayes_cli
from dpbayes_cli.core.registry import MODELS

PACKAGE = Path(dpbayes_cli.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
REGISTRY = "core/registry.py"
NAMES_MODELS = ("models/", "experiments/", REGISTRY)
"""Where a model's name may be written: a study is about one model."""
SECTIONS_OF_SPECS = "dpbayes_cli.models.families.regression_domain"
"""Parts of a spec, of which files of studies are made too."""


def classes_of(folder: str) -> set[str]:
    """Return the names of the classes that modules below a folder define."""
    texts = (path.read_text(encoding="utf-8") for name, path in MODULES.items() if name.startswith(folder))
    return {found for text in texts for found in re.findall(r"^class (\w+)", text, re.MULTILINE)}


FAMILIES = classes_of("models/families/")
CONCRETE = classes_of("models/") - FAMILIES
MENTIONED = re.compile(
    rf"dpbayes_cli\.models|\b({'|'.join(sorted(CONCRETE | FAMILIES))})\b|['\"]({'|'.join(MODELS)})['\"]"
)
"""What a module says that has anything to do with models; the others need not be parsed."""


def names_in(node: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def types_asked_for(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Yield line and names of every type that a module tests for, however it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func) & {"isinstance", "issubclass", "require_type"}:
            yield node.lineno, set().union(*(names_in(argument) for argument in node.args[1:]))
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(names_in(side) & {"type", "__class__", "__name__"} for side in sides):
                yield node.lineno, set().union(*map(names_in, sides))
        elif isinstance(node, ast.MatchClass):
            yield node.cls.lineno, names_in(node.cls)


def imports(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line, module and whether it is for types alone, of every import from ``models/``."""
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in names_in(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name, id(node) in guarded) for name in modules if name.startswith(_MODELS))


_MODELS = "dpbayes_cli.models"


def may_import(path: str, module: str, for_types: bool) -> bool:
    """Return whether a module may import a module of models: a mechanism its capabilities, a study types."""
    if path.startswith("mechanisms/"):
        return module.startswith(f"{_MODELS}.families.")
    return path.startswith("experiments/") and (for_types or module == SECTIONS_OF_SPECS)


def findings(path: str, source: str) -> list[str]:
    """Return what a module outside ``models/`` does that only models may."""
    if path.startswith("models/") or not MENTIONED.search(source):
        return []
    tree = ast.parse(source)
    forbidden = CONCRETE if path.startswith("mechanisms/") else CONCRETE | FAMILIES
    found = [
        f"{path}:{line} tests for {', '.join(sorted(types & forbidden))}"
        for line, types in types_asked_for(tree)
        if types & forbidden
    ]
    found += [
        f"{path}:{line} imports {module}"
        for line, module, for_types in imports(tree)
        if not may_import(path, module, for_types)
    ]
    if not path.startswith(NAMES_MODELS):
        constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        found += [f"{path}:{node.lineno} names {node.value!r}" for node in constants if node.value in MODELS]
    return found


def test_nothing_outside_models_asks_which_model_it_has() -> None:
    assert {"Hmm", "LinearRegression", "NaiveBayes"} <= CONCRETE
    assert {"DiscreteBayesNet", "ConvexLossModel", "BoundedNumber"} <= FAMILIES
    found = [each for path, file in MODULES.items() for each in findings(path, file.read_text(encoding="utf-8"))]
    assert found == []


ASKING = {
    "isinstance": "isinstance(model, Hmm)",
    "one of several": "isinstance(model, NoisyStatistics | DiscreteBayesNet)",
    "a tuple": "issubclass(kind, (Model, families.ConvexLossModel))",
    "require_type": "require_type(model, LinearRegression).complete_draws(draws)",
    "its type": "type(model) is BetaBernoulli",
    "the name of its type": "type(model).__name__ == Hmm.__name__",
    "a pattern": "match model:\n    case Hmm(states=2): pass",
    "an import": "from dpbayes_cli.models.hmm import Hmm",
    "an import of a family": "def late():\n    import dpbayes_cli.models.families.convex_loss",
    "an import for types": "if TYPE_CHECKING:\n    from dpbayes_cli.models.families.convex_loss import ConvexLossModel",
    "its name": "document.model == 'hmm'",
}


@pytest.mark.parametrize("source", ASKING.values(), ids=list(ASKING))
def test_asking_is_found(source: str) -> None:
    assert findings("bundle/report/page.py", source)


def test_mechanisms_ask_for_capabilities_and_studies_import_types() -> None:
    capability = "from dpbayes_cli.models.families.convex_loss import ConvexLossModel\nexpect(model, ConvexLossModel)"
    assert findings("mechanisms/gibbs.py", capability) == []
    assert findings("mechanisms/gibbs.py", "from dpbayes_cli.models.hmm import Hmm")
    assert findings("mechanisms/gibbs.py", "isinstance(model, Hmm)")
    types = "if TYPE_CHECKING:\n    from dpbayes_cli.models.hmm import Hmm"
    assert findings("experiments/hmm.py", types) == []
    assert findings("experiments/hmm.py", types.replace("TYPE_CHECKING", "True"))
