"""Figures of plans and runs: for each a function that computes its numbers, and one that describes how it is drawn."""
