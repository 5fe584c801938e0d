"""The catalog report: one HTML page that explains a compiled catalog.

Owns what is shown and how. Never changes a catalog and loads nothing from outside the page.
"""

from catalog_compiler.report.page import render_report

__all__ = ["render_report"]
