"""How an answer ended: its word, a sentence and a remedy."""

__all__ = ["CONVERGED", "NEARLY", "Status", "infeasible", "not_converged"]

from typing import Any, Self


class Status(str):
    """How an answer ended: `converged`, `infeasible` or `not converged`, with a sentence and a remedy.

    It compares as its word, so that `cf.status == "converged"` is a mask of rows.

    Example:
        >>> CONVERGED == "converged"
        True
    """

    __slots__ = ("reason", "remedy")

    reason: str
    remedy: str

    def __new__(cls, word: str, reason: str, remedy: str) -> Self:
        status = super().__new__(cls, word)
        status.reason, status.remedy = reason, remedy
        return status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.reason, self.remedy)

    def explain(self) -> str:
        """Says the status with its sentence and its remedy."""
        return f"{self}: {self.reason} {self.remedy}".strip()


CONVERGED = Status("converged", "The antecedent holds and the answer is a solution.", "")


NEARLY = Status("converged", "The antecedent holds up to what the penalty allows; `error` says how nearly.", "")


def infeasible(reason: str, remedy: str) -> Status:
    """Creates the status of a question that has no answer."""
    return Status("infeasible", reason, remedy)


def not_converged(reason: str, remedy: str) -> Status:
    """Creates the status of an answer that is only the best one found."""
    return Status("not converged", reason, remedy)
