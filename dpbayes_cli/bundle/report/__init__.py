"""The report as a page, as Markdown and as figures: a function of the release document and its analysis.

Reads no data and no ledger.
"""
