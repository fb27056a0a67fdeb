"""How many processes were killed and faults made, for the end of a run to tell."""

from collections import Counter


class CountsByKind:
    """Counts things by what they were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self.counts[what] += 1

    def lines(self, name: str) -> list[str]:
        """The sum, and what it is made up of."""
        parts = [f"{count} of {what}" for what, count in sorted(self.counts.items())]
        return [f"{self.counts.total()} {name}: {'; '.join(parts)}"] if parts else []


kills = CountsByKind()
faults = CountsByKind()


def report() -> list[str]:
    return [*kills.lines("kills"), *faults.lines("faults")]
