"""A device of a federation: keys, trust, consent, samples, envelopes and the ledger; it knows no engine."""
