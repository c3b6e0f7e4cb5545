"""Claims of the paper, each judged from numbers by a stated rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds partly", "does not hold"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper's text and what a run says of it.

    Attributes
    ----------
    section : str
        Where the paper makes it, such as "4.1".
    text : str
        The claim, in our words.
    parts : mapping of str to bool
        The rule: conditions on numbers of the results, and whether each is met. A claim holds if all are, holds
        partly if some are, and else does not hold.
    evidence : str
        The numbers behind it.
    figure : str
        The table or figure that shows it.
    """

    section: str
    text: str
    parts: Mapping[str, bool]
    evidence: str
    figure: str

    @property
    def verdict(self) -> Verdict:
        """What the parts amount to."""
        if all(self.parts.values()):
            return "holds"
        return "holds partly" if any(self.parts.values()) else "does not hold"
