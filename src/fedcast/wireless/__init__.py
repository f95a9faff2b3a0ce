"""Radio links: where users stand, what a signal loses on its way, and the rates that remain."""
