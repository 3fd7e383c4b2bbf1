"""Trees to graphs: names, types, statements, and the steps to SSA form.

Takes the tree of a function and gives its graph. Read `compile` (the order of the steps),
`emission` and `sugared` (the state and the values meanwhile), then `to_ssa` and `exit_transform`.
The `emit_*` modules have a form of the language each. A function that the compiler shall know goes
into `emit_calls`, `emit_iteration` or `emit_questions`.
"""
