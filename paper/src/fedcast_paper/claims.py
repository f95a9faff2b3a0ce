"""The paper's claims one by one, and the verdicts that bear on each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedcast_paper.result import Result, Verdict


@dataclass(frozen=True)
class Claim:
    """Something that the paper says of its results.

    Attributes:
        text: in a sentence.
        evidence: where to look: an id, and a pattern that the verdicts there must match.
    """

    text: str
    evidence: tuple[tuple[str, str], ...]


CLAIMS = (
    Claim(
        "A lower average EMD converges faster and ends at a higher accuracy.",
        (("fig1a", "lower average EMD"), ("fig6", "accuracy falls")),
    ),
    Claim("Sharing 0 → 0.05 gains more than 0.05 → 0.1.", (("fig1b", "0 to 0.05 gains more"),)),
    Claim("10 clusters beat 25.", (("fig1c", "clusters beat"),)),
    Claim("Gains on CIFAR-10 exceed those on MNIST.", (("fig4", "CIFAR-10 exceed"), ("table2", "CIFAR-10 exceed"))),
    Claim(
        "DACA beats FedAvg.",
        (
            ("fig4", "DACA ends above FedAvg"),
            ("table2", "DACA ends above FedAvg"),
            ("beyond-rounds", "DACA needs fewer rounds than FedAvg"),
        ),
    ),
    Claim(
        "DACA beats SCC and CEC.",
        (
            ("fig4", "DACA ends above (SCC|CEC)"),
            ("table2", "DACA ends above (SCC|CEC)"),
            ("beyond-rounds", "DACA needs fewer rounds than (SCC|CEC)"),
        ),
    ),
    Claim(
        "DACA is at least as good as central sharing on CIFAR-10 and on noise-skewed data.",
        (("fig4", "at least as good as central"), ("table2", "at least as good as central on CIFAR-10")),
    ),
    Claim("A cluster's sharing ratio falls as its SINR falls.", (("fig9a", "sharing ratio falls"),)),
    Claim("JFVO converges within 6 iterations.", (("fig7a", "within 6 iterations"), ("fig7b", "within 6 iterations"))),
    Claim("JFVO converges faster than SMM and SAA.", (("fig7a", "converges faster"),)),
    Claim("JFVO shares more than SMM and SAA.", (("fig9a", "shares more"),)),
    Claim("JFVO ends lower than SMM and SAA.", (("fig7a", "ends lower"), ("fig9b", "ends lower"))),
    Claim("The sharing delay grows with the number of users.", (("fig9b", "sharing delay grows"),)),
    Claim("Interference is why the sharing delay grows.", (("fig9b", "interference alone"),)),
    Claim("JFVO's running time is flat in the number of users.", (("fig8", "nearly constant"),)),
    Claim(
        "The average EMD predicts the rounds.",
        (("fig6", "predicts the rounds"), ("beyond-measures", "decides the rounds")),
    ),
)
WORDS = {"yes": "holds", "partly": "holds in part", "no": "does not hold", "open": "not settled"}
NOT_RUN = "not run yet"


def verdicts_on(claim: Claim, results: Mapping[str, Result]) -> list[tuple[str, Verdict]]:
    """What the results that are there say of a claim, each with its id."""
    return [
        (name, verdict)
        for name, pattern in claim.evidence
        if name in results
        for verdict in results[name].verdicts
        if re.search(pattern, verdict.claim)
    ]


def overall(verdicts: Iterable[Verdict]) -> str:
    """One word for all: it holds only if it holds everywhere, and does not hold if it is seen nowhere.

    Example:
        >>> overall([Verdict("a", "yes", ""), Verdict("a", "no", "")])
        'holds in part'
        >>> overall([Verdict("a", "open", ""), Verdict("a", "no", "")])
        'does not hold'
        >>> overall([])
        'not run yet'
    """
    found = {verdict.holds for verdict in verdicts}
    if not found:
        return NOT_RUN
    if found == {"open", "no"}:
        return WORDS["no"]
    return WORDS[found.pop()] if len(found) == 1 else WORDS["partly"]
