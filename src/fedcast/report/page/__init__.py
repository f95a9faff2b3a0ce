"""The report page: one HTML file with its style and its script inside, which fetches nothing from any network."""

from fedcast.report.page.html_page import page

__all__ = ["page"]
