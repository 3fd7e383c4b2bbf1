"""Trees to graphs: names, types, statements, and the steps to SSA form."""
