"""The loss curves as a picture."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from minitorch2.demo.agreement import TrainingStep

LINES = {"eager": "-", "minitorch2": "--", "torch.compile": ":"}

FLOOR = 1e-8  # so that a difference of nothing has a place on a logarithmic axis


def plot_losses(steps: list[TrainingStep], path: Path) -> None:
    """Draw each compiler's losses, and below them how far they are from eager's."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    eager = [step.losses["eager"] for step in steps]
    for name in steps[0].losses:
        losses = [step.losses[name] for step in steps]
        above.plot(losses, LINES[name], label=name)
        if name != "eager":
            distance = [abs(a - b) + FLOOR for a, b in zip(losses, eager, strict=True)]
            below.semilogy(distance, LINES[name], label=f"|{name} - eager|")
    above.set_ylabel("loss (nats per character)")
    above.set_title("A small GPT learns Shakespeare from the same seed")
    below.set_xlabel("training step")
    for axes in (above, below):
        axes.legend()
    figure.savefig(path, dpi=120)
