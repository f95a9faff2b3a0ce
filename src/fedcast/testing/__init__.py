"""Conformance kits: checks that a plug-in of each kind must pass, for use with pytest.

A kit is a tuple of functions that take a plug-in, or its name, and raise `AssertionError` with what is wrong::

    from fedcast.registry import load_file
    from fedcast.testing.clustering import CHECKS

    load_file("mine.py")

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_rule(check):
        check("mine")
"""
