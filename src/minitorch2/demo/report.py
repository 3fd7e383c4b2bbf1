"""The demo's tables, as rich renderables; nothing here measures or decides."""

from dataclasses import dataclass

from rich.table import Table

from minitorch2.demo.agreement import EmbeddingAgreement, Neighbour
from minitorch2.demo.first_result import FirstResult

FIGURES_CAPTION = (
    "cold, warm: seconds from a loaded model to its first result (gpt: a whole training step),\n"
    "in a new process with an empty cache, and in the next process; run: a later batch or step;\n"
    "kernels: loop nests before fusion -> kernels after it"
)


@dataclass(frozen=True)
class Row:
    """One workload with one compiler: the first results (cold, warm) and a later run's seconds."""

    workload: str
    compiler: str
    cold: FirstResult
    warm: FirstResult
    seconds: float
    eager_seconds: float

    @property
    def speedup(self) -> float:
        """The eager seconds divided by the compiled ones; below 1 compiled is slower."""
        return self.eager_seconds / self.seconds


def yes_or_no(holds: bool) -> str:
    """Return a coloured verdict."""
    return "[green]yes[/]" if holds else "[bold red]NO[/]"


def agreement_table(agreements: list[EmbeddingAgreement]) -> Table:
    """Make a table of differences of compiled and eager embeddings, with a row for each shape."""
    table = Table(title="Embeddings, eager and compiled")
    for column in ("tokens", "largest difference", "relative", "same neighbour", "agree"):
        table.add_column(column, justify="right")
    for each in agreements:
        table.add_row(
            " x ".join(map(str, each.shape)),
            f"{each.absolute:.1e}",
            f"{each.relative:.1e}",
            f"{each.same_neighbours} of {each.shape[0]}",
            yes_or_no(each.holds),
        )
    return table


def neighbour_table(neighbours: list[Neighbour]) -> Table:
    """Some sentences with the sentence that the embeddings say is nearest."""
    table = Table(title="Nearest sentences by the compiled embeddings")
    table.add_column("sentence")
    table.add_column("nearest")
    table.add_column("cosine", justify="right")
    for each in neighbours:
        table.add_row(each.sentence, each.compiled, f"{each.cosine:.3f}")
    return table


def figures_table(rows: list[Row]) -> Table:
    """Time and compilation figures, a row for each workload and compiler."""
    table = Table(title="Time", caption=FIGURES_CAPTION)
    table.add_column("workload")
    table.add_column("compiler")
    for column in ("cold s", "warm s", "run ms", "speed-up", "graphs", "breaks", "kernels"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.workload,
            row.compiler,
            f"{row.cold.seconds:.2f}",
            f"{row.warm.seconds:.2f}",
            f"{1e3 * row.seconds:.1f}",
            f"{row.speedup:.2f}x",
            *_counts(row),
        )
    return table


def _counts(row: Row) -> tuple[str, str, str]:
    """Return the counts that our stages report; other compilers do not report to them."""
    if row.compiler != "minitorch2":
        return "", "", ""
    counts = row.cold.counts
    graphs, breaks = counts.get("graphs", 0), counts.get("graph_breaks", 0)
    before, after = counts.get("kernels_before_fusion", 0), counts.get("kernels", 0)
    return str(graphs), str(breaks), f"{before} -> {after}"


def phases_text(row: Row) -> str:
    """Return the seconds of a cold start by phase, longest first."""
    phases = sorted(row.cold.phases.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {spent:.2f}" for name, spent in phases)
