"""One module for each figure and table of the paper (``beyond_…``: additional results); each defines `REPRODUCTION`.

A module has a function ``data`` that computes a `Result` from a `Job`, and a function ``draw`` that draws a `Result`
and computes nothing. The same seeds give the same result.
"""
