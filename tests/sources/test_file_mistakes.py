"""The messages about files that cannot be read as stated."""

from dpbayes_cli.sources.file_mistakes import missing_column


def test_a_header_with_commas_is_not_a_misspelled_column() -> None:
    error = missing_column(["hospital,ill"], "hospital", "new.csv", is_public=False)
    assert "a single field that holds ','" in str(error)
    assert error.hint.startswith("--delimiter ,")
