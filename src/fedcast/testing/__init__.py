"""Conformance kits: checks that a plug-in of each kind must pass, for use with pytest."""
