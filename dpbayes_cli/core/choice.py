"""What users of the library choose: a model with its domain and prior, and a mechanism with its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.options import PRIVACY, SAMPLING, fields_of, notes_of, unwrap
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supported_pairs

_SECTIONS = (PRIVACY, SAMPLING)


class ModelChoice(msgspec.Struct, frozen=True):
    """A model with the domain and the prior that the user stated.

    Attributes:
        domain: the stated keys of the public domain.
        prior: the stated keys of the prior; None if the default prior is used.
    """

    name: str
    domain: dict[str, Any]
    prior: dict[str, Any] | None

    @property
    def stated(self) -> dict[str, Any]:
        """The part of a spec that states the model."""
        stated: dict[str, Any] = {"model": self.name, "domain": self.domain, "prior": self.prior}
        return {key: value for key, value in stated.items() if value}


class MechanismChoice(msgspec.Struct, frozen=True):
    """A mechanism with the options that the user stated.

    Attributes:
        privacy: the stated privacy cost.
        sampling: the stated options of posterior draws.
    """

    name: str
    privacy: dict[str, Any]
    sampling: dict[str, Any]

    @property
    def stated(self) -> dict[str, Any]:
        """The part of a spec that states the mechanism."""
        stated: dict[str, Any] = {"mechanism": self.name, PRIVACY: self.privacy, SAMPLING: self.sampling}
        return {key: value for key, value in stated.items() if value}


def as_texts(value: Any) -> Any:
    """Return a value as a spec holds it: texts, and mappings and lists of texts.

    A float becomes its shortest decimal text, so 0.1 means exactly one tenth.

    Raises:
        TypeError: a value has no text form in a spec.
    """
    if isinstance(value, Mapping):
        return {str(key): as_texts(part) for key, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [as_texts(part) for part in value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, str | int | float):
        return str(value)
    if hasattr(value, "item"):  # a NumPy scalar
        return as_texts(value.item())
    raise TypeError(f"a {type(value).__name__} cannot be part of a spec")


def model_maker(class_name: str) -> Callable[..., ModelChoice]:
    """Return the function by which a user of the library chooses a model, such as ``models.BetaBernoulli``.

    Its keyword arguments are the keys of the model's domain and prior. A key of the prior that is also a key of the
    domain is called ``prior_KEY``.

    Raises:
        AttributeError: there is no such model.
    """
    kind = _named(class_name, model_names(), model_type)
    domain = {item.name: item for item in fields_of(kind.domain_type)}
    prior = {item.name: item for item in fields_of(kind.prior_type)}
    of_prior = {f"prior_{name}" if name in domain else name: name for name in prior}

    def choose(**keys: Any) -> ModelChoice:
        stated = _stated_texts(class_name, keys, [*domain, *of_prior])
        parts = {of_prior[name]: value for name, value in stated.items() if name in of_prior}
        return ModelChoice(kind.name, {name: stated[name] for name in domain if name in stated}, parts or None)

    arguments = {name: ("domain", item) for name, item in domain.items()}
    arguments |= {name: ("prior", prior[key]) for name, key in of_prior.items()}
    _document(choose, class_name, kind.summary, arguments)
    return choose


def mechanism_maker(class_name: str) -> Callable[..., MechanismChoice]:
    """Return the function by which a user of the library chooses a mechanism, such as ``mechanisms.Laplace``.

    Its keyword arguments are all options that the mechanism has for at least one model.

    Raises:
        AttributeError: there is no such mechanism.
    """
    kind = _named(class_name, mechanism_names(), mechanism_type)
    kinds = dict.fromkeys(kind.options_for(model) for model, serving in supported_pairs() if serving is kind)
    options = {item.name: item for each in kinds for item in fields_of(each)}
    section = {name: notes_of(item.type)["section"] for name, item in options.items()}

    def choose(**keys: Any) -> MechanismChoice:
        stated = _stated_texts(class_name, keys, list(options))
        split = [{name: value for name, value in stated.items() if section[name] == each} for each in _SECTIONS]
        return MechanismChoice(kind.name, *split)

    _document(choose, class_name, kind.summary, {name: (section[name], options[name]) for name in options})
    return choose


def choice_names(methods: Iterable[str]) -> list[str]:
    """Return the names of the functions that choose methods: ``BetaBernoulli`` for beta-bernoulli."""
    return sorted("".join(part.capitalize() for part in name.split("-")) for name in methods)


def _named(class_name: str, methods: Sequence[str], load: Callable[[str], Any]) -> Any:
    for name in methods:
        if class_name in choice_names([name]):
            return load(name)
    raise AttributeError(f"there is no {class_name!r}; expected one of {', '.join(choice_names(methods))}")


def _stated_texts(class_name: str, keys: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    stated = {name: as_texts(value) for name, value in keys.items() if value is not None}
    for name in stated:
        if name not in allowed:
            raise TypeError(f"{class_name}() has no argument {name!r}; it takes {', '.join(allowed)}")
    return stated


def _document(choose: Any, class_name: str, summary: str, arguments: Mapping[str, tuple[str, Any]]) -> None:
    choose.__name__ = choose.__qualname__ = class_name
    lines = [f"    {name}: {section}: {unwrap(item.type)[1]}" for name, (section, item) in arguments.items()]
    choose.__doc__ = "\n".join([f"{summary[:1].upper()}{summary[1:]}.", "", "Args:", *lines])
    choose.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in arguments]
    )
