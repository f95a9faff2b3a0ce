"""One sentence for each figure and table on why ours differs from the paper's, or does not.

No number stands here: those of a result are in its file, and the page takes them from there.
"""

REASONS = {
    "fig1a": "It agrees: the more users hold one class, the further apart are their models after a round, until most "
    "users do (beyond-drift).",
    "fig1b": "It agrees: the first samples help most.",
    "fig1c": "With fewer heads more users are members, which lowers the EMD, but the classes of so few heads shift the "
    "overall mixture more; here neither wins. The paper does not say how much was shared, nor over how many runs.",
    "fig4": "On MNIST all strategies end close to each other after the rounds given here, and noise of this level "
    "hardly skews the task; the order shows earlier, in the rounds to a target (beyond-rounds). Roles of Shakespeare "
    "use characters in much the same shares: there is little skew that sharing could take away. After these rounds "
    "accuracy there still rises, and nothing is settled; one small set sent to all (central) moves the shares of "
    "characters further apart.",
    "table2": "The paper does not say how long it trained. Trained for fewer rounds our FedAvg on MNIST would be as "
    "low as the paper's, but DACA would then be below the paper's: no number of rounds gives both. How inputs are "
    "scaled moves such figures as much (benchmarks/elsewhere.md). A tenth of a head's samples adds less here than "
    "there, but for CIFAR-10 at Dir 1, where it adds about as much. On CIFAR-10 the users drawn by a seed move all "
    "strategies alike, by more than strategies differ: compare differences from FedAvg, which are taken seed by seed. "
    "At one ratio gain and blend choose larger heads and so share more at Dir 0.1.",
    "fig5": "Even if a head sends all it has, a member of one class still holds half of that class: its EMD is halved, "
    "not removed.",
    "fig6": "Over partitions of different skew the EMD predicts the rounds better than in the paper; among ways of "
    "sharing at one skew it hardly does (beyond-measures).",
    "fig7a": "All methods here solve one problem, with frequencies eliminated, and end at its optimum; only the way "
    "there differs. The alternation as printed cannot raise a volume.",
    "fig7b": "A faster link makes rounds cheaper, so that less sharing pays; the paper's text argues so too, its "
    "figure shows the opposite.",
    "fig8": "With a general solver the times of all three methods grow alike, JFVO's too; with the exact inner solver "
    "they hardly grow.",
    "fig9a": "A head of one class shares a ninth of what a member holds, or nothing, whatever its link; the paper's "
    "mechanism shows among heads of several classes, and where sharing time matters.",
    "fig9b": "With heads that interfere with each other sharing slows down as users are added, as the paper says; with "
    "the fixed 3 dB of its Table I it hardly does. All methods end alike: they solve one problem to its optimum.",
    "beyond-rounds": "Sharing once takes no longer than a round or two, so that fewer rounds are what makes a strategy "
    "faster. Where users are nearly alike blend shares almost nothing, and the others gain a round or two on it.",
    "beyond-algorithms": "A weak proximal term changes little, and sharing adds as much to it as to FedAvg. SCAFFOLD "
    "has a smaller step here; at that step it needs fewer rounds than FedAvg, and sharing saves a third of them too.",
    "beyond-drift": "Drift grows with the epochs. With the EMD it grows only while local training is short, as a user "
    "of one class soon has nothing left to learn.",
    "beyond-measures": "No measure tells half of it. Among clusterings of one ratio the shift of the overall mixture "
    "tells more than any measure of single users, and adds to each of them; with the weights printed in the paper (A) "
    "the EMD tells next to nothing. In blend its weight hardly matters: heads that send equal classes leave little of "
    "it.",
}
