"""The directory with the file from which small studies learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.studies import write_records


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("records")
    write_records(place)
    return place
