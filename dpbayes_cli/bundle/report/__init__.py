"""The report as a page, as Markdown and as figures, made from a release document and its analysis alone."""
