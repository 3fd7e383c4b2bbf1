"""`python -m minitorch2 demo`: run it all, show it, and fail if eager and compiled disagree."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, track

from minitorch2.demo import report, timing
from minitorch2.demo.agreement import (
    TrainingStep,
    curves_agree,
    embedding_agreements,
    training_steps,
)
from minitorch2.demo.first_result import FirstResult, first_results
from minitorch2.demo.plot import plot_losses
from minitorch2.demo.workloads import COMPILERS, WORKLOADS

WIDTH = 100


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    compilers: list[str]
    steps: int
    rounds: int
    output: Path
    stages: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 demo", description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure torch.compile beside us")
    parser.add_argument("--steps", type=int, help="training steps (300, with --quick 40)")
    parser.add_argument("--quick", action="store_true", help="fewer steps and rounds")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR")
    parser.add_argument("--stages", type=Path, metavar="DIR", help="write every compilation stage")
    given = parser.parse_args(arguments)
    return Options(
        compilers=[name for name in COMPILERS if given.peer or name != "torch.compile"],
        steps=given.steps or (40 if given.quick else 300),
        rounds=7 if given.quick else 31,
        output=given.output,
        stages=given.stages,
    )


def show_embeddings(console: Console) -> bool:
    """Show part one: the pretrained encoder at several shapes."""
    console.rule("A pretrained sentence encoder, eagerly and compiled")
    with console.status("embedding"):
        found = list(embedding_agreements())
    agreements = [agreement for agreement, _ in found]
    console.print(report.neighbour_table(found[0][1][::5]))
    console.print(report.agreement_table(agreements))
    return all(agreement.holds for agreement in agreements)


def show_training(console: Console, options: Options) -> tuple[list[TrainingStep], bool]:
    """Show part two: the GPT, trained by each compiler from the same seed."""
    console.rule(f"A GPT of 1.3 million parameters, {options.steps} training steps")
    steps = []
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=options.steps)
        for step in training_steps(options.compilers, options.steps):
            steps.append(step)
            text = "  ".join(f"{name} {loss:.4f}" for name, loss in step.losses.items())
            progress.update(task, advance=1, description=text)
    picture = options.output / "loss.png"
    plot_losses(steps, picture)
    first, last = steps[0].losses, steps[-1].losses
    distance = max(abs(step.losses["minitorch2"] - step.losses["eager"]) for step in steps)
    agree = curves_agree(steps)
    console.print(f"loss {first['eager']:.6f} -> {last['eager']:.6f} eagerly, ", end="")
    console.print(f"{first['minitorch2']:.6f} -> {last['minitorch2']:.6f} compiled")
    console.print(f"largest difference of the curves {distance:.1e}; agree: ", end="")
    console.print(f"{report.yes_or_no(agree)}; picture: {picture}")
    return steps, agree


def first_of(console: Console, options: Options) -> dict[tuple[str, str], list[FirstResult]]:
    """Measure cold and warm first results of every workload and compiler in new processes."""
    pairs = [(workload, name) for workload in WORKLOADS for name in options.compilers]
    return {
        (workload, name): list(first_results(workload, name, options.stages))
        for workload, name in track(pairs, "cold and warm starts", console=console)
    }


def run_seconds(
    console: Console, options: Options, steps: list[TrainingStep]
) -> dict[str, dict[str, float]]:
    """Measure the median seconds of later runs, by workload and compiler, taking turns."""
    runs = {name: WORKLOADS["encoder"](COMPILERS[name]) for name in options.compilers}
    for run in runs.values():
        run()  # compiles
    turns = track(timing.rounds(runs, options.rounds), "batches", options.rounds, console=console)
    # The first steps of training compile, so their time says nothing of a step.
    later = [step.seconds for step in steps[len(steps) // 4 :]]
    return {"encoder": timing.medians(list(turns)), "gpt": timing.medians(later)}


def show_figures(console: Console, options: Options, steps: list[TrainingStep]) -> list[report.Row]:
    """Show part three: the seconds of each workload and compiler."""
    console.rule(f"Time, {torch.get_num_threads()} threads, medians, compilers taking turns")
    later = run_seconds(console, options, steps)
    rows = [
        report.Row(workload, name, cold, warm, later[workload][name], later[workload]["eager"])
        for (workload, name), (cold, warm) in first_of(console, options).items()
    ]
    console.print(report.figures_table(rows))
    for row in rows:
        if row.cold.phases:
            console.print(f"cold {row.workload}, seconds: {report.phases_text(row)}")
    return rows


def main(arguments: Sequence[str]) -> int:
    """Run the demo; the status is 1 if eager and compiled disagree anywhere."""
    options = parse(arguments)
    console = Console()
    console.width = max(console.width, WIDTH)  # where no terminal says, rich assumes 80
    options.output.mkdir(parents=True, exist_ok=True)
    embeddings_agree = show_embeddings(console)
    steps, losses_agree = show_training(console, options)
    rows = show_figures(console, options, steps)
    figures = options.output / "figures.json"
    figures.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.stages is not None:
        console.print(f"stages: {options.stages}")
    agree = embeddings_agree and losses_agree
    console.print("[green]eager and compiled agree[/]" if agree else "[bold red]they DISAGREE[/]")
    return 0 if agree else 1
