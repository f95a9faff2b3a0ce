"""Federated averaging on the same data by our engines, a plain loop and other frameworks, each in its own process.

Every `*_rounds` module is a program: `python -m others.pfl_rounds w1 MODEL --rounds 3`, run in the folder above. It
needs numpy, PyTorch and its framework; `benchmarks/training.py` starts them and lets them train in turns.
"""
