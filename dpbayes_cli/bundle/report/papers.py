"""The papers behind models and mechanisms, as their info names them."""

from __future__ import annotations

from dataclasses import dataclass

_PROCEEDINGS = "inproceedings"


@dataclass(frozen=True)
class Paper:
    """One paper.

    Attributes:
        authors: given and family names, in the order of the paper.
        title: as printed on the paper.
        venue: the proceedings or the journal.
        year: the year of publication.
        kind: ``inproceedings`` or ``article``.
    """

    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    kind: str = _PROCEEDINGS

    @property
    def first(self) -> str:
        """The family name of the first author."""
        return self.authors[0].split()[-1]

    @property
    def plain(self) -> str:
        """The paper in one line."""
        return f"{', '.join(self.authors)}. {self.title}. {self.venue}, {self.year}."

    @property
    def bibtex(self) -> str:
        """The paper as an entry for BibTeX."""
        where = "booktitle" if self.kind == _PROCEEDINGS else "journal"
        return "\n".join(
            [
                f"@{self.kind}{{{self.first.lower()}{self.year},",
                f"  author = {{{' and '.join(self.authors)}}},",
                f"  title = {{{{{self.title}}}}},",
                f"  {where} = {{{self.venue}}},",
                f"  year = {{{self.year}}}",
                "}",
            ]
        )


PAPERS = (
    Paper(
        ("Boaz Barak", "Kamalika Chaudhuri", "Cynthia Dwork", "Satyen Kale", "Frank McSherry", "Kunal Talwar"),
        "Privacy, Accuracy, and Consistency Too: A Holistic Solution to Contingency Table Release",
        "PODS",
        2007,
    ),
    Paper(
        ("A. A. Barker",),
        "Monte Carlo Calculations of the Radial Distribution Functions for a Proton-Electron Plasma",
        "Australian Journal of Physics",
        1965,
        "article",
    ),
    Paper(
        ("M. S. Bartlett",),
        "On the Theory of Statistical Regression",
        "Proceedings of the Royal Society of Edinburgh",
        1933,
        "article",
    ),
    Paper(
        ("Garrett Bernstein", "Daniel Sheldon"),
        "Differentially Private Bayesian Inference for Exponential Families",
        "NeurIPS",
        2018,
    ),
    Paper(
        ("Garrett Bernstein", "Daniel Sheldon"), "Differentially Private Bayesian Linear Regression", "NeurIPS", 2019
    ),
    Paper(
        ("Jinho Bok", "Weijie Su", "Jason M. Altschuler"),
        "Shifted Interpolation for Differential Privacy",
        "ICML",
        2024,
    ),
    Paper(
        ("Mark Bun", "Thomas Steinke"),
        "Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
        "TCC",
        2016,
    ),
    Paper(
        ("Clément L. Canonne", "Gautam Kamath", "Thomas Steinke"),
        "The Discrete Gaussian for Differential Privacy",
        "NeurIPS",
        2020,
    ),
    Paper(
        ("Mark Cesar", "Ryan Rogers"),
        "Bounding, Concentrating, and Truncating: Unifying Privacy Loss Composition for Data Analytics",
        "ALT",
        2021,
    ),
    Paper(
        ("David Durfee", "Ryan Rogers"),
        "Practical Differentially Private Top-k Selection with Pay-what-you-get Composition",
        "NeurIPS",
        2019,
    ),
    Paper(
        ("James Foulds", "Joseph Geumlek", "Max Welling", "Kamalika Chaudhuri"),
        "On the Theory and Practice of Privacy-Preserving Bayesian Data Analysis",
        "UAI",
        2016,
    ),
    Paper(
        ("Joseph Geumlek", "Shuang Song", "Kamalika Chaudhuri"),
        "Renyi Differential Privacy Mechanisms for Posterior Sampling",
        "NeurIPS",
        2017,
    ),
    Paper(
        ("Arpita Ghosh", "Tim Roughgarden", "Mukund Sundararajan"),
        "Universally Utility-Maximizing Privacy Mechanisms",
        "STOC",
        2009,
    ),
    Paper(
        ("Sharon Goldwater", "Thomas L. Griffiths"),
        "A Fully Bayesian Approach to Unsupervised Part-of-Speech Tagging",
        "ACL",
        2007,
    ),
    Paper(
        ("Leo A. Goodman",),
        "Exploratory Latent Structure Analysis Using Both Identifiable and Unidentifiable Models",
        "Biometrika",
        1974,
        "article",
    ),
    Paper(
        ("Sivakanth Gopi", "Yin Tat Lee", "Daogao Liu"),
        "Private Convex Optimization via Exponential Mechanism",
        "COLT",
        2022,
    ),
    Paper(
        ("Peter J. Huber",),
        "Robust Estimation of a Location Parameter",
        "The Annals of Mathematical Statistics",
        1964,
        "article",
    ),
    Paper(("Roger Koenker", "Gilbert Bassett"), "Regression Quantiles", "Econometrica", 1978, "article"),
    Paper(
        ("Ryan McKenna", "Daniel Sheldon"),
        "Permute-and-Flip: A New Mechanism for Differentially Private Selection",
        "NeurIPS",
        2020,
    ),
    Paper(("Frank McSherry", "Kunal Talwar"), "Mechanism Design via Differential Privacy", "FOCS", 2007),
    Paper(
        ("Kentaro Minami", "Hiromi Arai", "Issei Sato", "Hiroshi Nakagawa"),
        "Differential Privacy without Sensitivity",
        "NeurIPS",
        2016,
    ),
    Paper(("Ilya Mironov",), "Renyi Differential Privacy", "CSF", 2017),
    Paper(("Radford M. Neal",), "Annealed Importance Sampling", "Statistics and Computing", 2001, "article"),
    Paper(
        ("Trevor Park", "George Casella"),
        "The Bayesian Lasso",
        "Journal of the American Statistical Association",
        2008,
        "article",
    ),
    Paper(
        ("Yu-Xiang Wang", "Stephen E. Fienberg", "Alexander J. Smola"),
        "Privacy for Free: Posterior Sampling and Stochastic Gradient Monte Carlo",
        "ICML",
        2015,
    ),
    Paper(
        ("Zuhe Zhang", "Benjamin I. P. Rubinstein", "Christos Dimitrakakis"),
        "On the Differential Privacy of Bayesian Inference",
        "AAAI",
        2016,
    ),
)


def papers_of(source: str) -> list[Paper]:
    """Return the papers that a text names by first author and year, in the order of the text.

    Args:
        source: papers between semicolons, each beginning with its first author.
    """
    parts = [part.strip() for part in source.split(";")]
    return [
        paper
        for part in parts
        for paper in PAPERS
        if part.startswith((f"{paper.first} ", f"{paper.first}, ")) and str(paper.year) in part
    ]
