"""fedcast: federated learning on skewed data, made faster by planned data sharing."""

__version__ = "0.1.0"
