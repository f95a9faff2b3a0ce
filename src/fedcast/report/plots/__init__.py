"""Plots of the page: figure data in, SVG out."""
