"""The report of a release as a page, as Markdown and as figures, made from its document and its posterior alone."""
