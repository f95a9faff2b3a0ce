"""Old name of `fedcast.report.colours.hex_of`, for the paper package until it draws with `fedcast.report`."""

from fedcast.report.colours import hex_of as colour

__all__ = ["colour"]
