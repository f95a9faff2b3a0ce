"""Studies: whole runs from a scenario, and comparisons of them."""
