"""Figures: a pure function gives the numbers, a thin renderer draws them."""
