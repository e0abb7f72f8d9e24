"""The file of a study of adversarial data: which priors and truncations, and how many records are added."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from dpbayes_cli.experiments.coin import CoinCase
from dpbayes_cli.experiments.study import Study, build_cases
from dpbayes_cli.spec.convert_section import convert_section


class AdversaryCase(CoinCase, frozen=True, kw_only=True):
    """A prior, and the public range of the probability."""

    support: Annotated[tuple[float, float], Meta(description="public range of the parameter")]


class AdversarialStudy(Study, frozen=True, kw_only=True):
    """One path a case: records are added one by one, each the one that costs more; nothing is random."""

    study: Literal["adversarial-data"]
    n: Annotated[int, Meta(ge=2, le=5000, description="records that are added")]
    cases: Annotated[dict[str, AdversaryCase], Meta(min_length=1)]


def build_adversarial(document: dict[str, Any]) -> AdversarialStudy:
    """Check a document.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, AdversarialStudy, lambda place, case: convert_section(case, AdversaryCase, place))
