"""Release the values of a printed graph after their last use, as eager execution does.

    y = torch.sin(x)              y = torch.sin(x)
    z = torch.cos(y)      -->     z = torch.cos(y); del y
    return (z,)                   return (z,)

Otherwise a graph holds every intermediate value until it ends. It then needs more memory than the
program that it was captured from, and each operator must allocate uncached memory.
"""

from __future__ import annotations

import ast
from types import CodeType

from minitorch2.foundation import syntax_tree


def compile_releasing(text: str, file: str) -> CodeType:
    """Compile the module `text` so that its straight-line functions release variables after use.

    Each variable is deleted after its last use. Lines are those of the text.
    """
    module = syntax_tree.parse(text, file)
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef):
            statement.body = _with_deletions(statement.body)
    return syntax_tree.compile_module(module, file)


def _with_deletions(body: list[ast.stmt]) -> list[ast.stmt]:
    uses = [[name for name in ast.walk(s) if isinstance(name, ast.Name)] for s in body]
    last = {name.id: place for place, names in enumerate(uses) for name in names}
    stored = {name.id for names in uses for name in names if isinstance(name.ctx, ast.Store)}
    ending: dict[int, list[str]] = {}
    for name, place in last.items():
        if name in stored:
            ending.setdefault(place, []).append(name)
    longer: list[ast.stmt] = []
    for place, statement in enumerate(body):
        longer.append(statement)
        dead = ending.get(place)
        if dead and not isinstance(statement, ast.Return):
            targets: list[ast.expr] = [ast.Name(name, ast.Del()) for name in dead]
            deletion = ast.copy_location(ast.Delete(targets), statement)
            longer.append(ast.fix_missing_locations(deletion))
    return longer
