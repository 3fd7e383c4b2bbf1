"""The profile of a script: where its time goes, what it could be, and where memory is at its peak.

    profile ::= Profile(spent, works, missed, peaks, limits, metrics)
    spent   ::= Spending(kind, name, graph, calls, seconds)        read from a profile of PyTorch
    work    ::= Work(name, bytes, operations, lines)               read from the loops of a kernel
    limits  ::= Limits(bandwidth, operations)                      measured once on a machine
    missed  ::= Missed(kind, reason, line, microseconds)           the gain is an estimate
    peak    ::= Peak(graph, planned, measured, line)               planned before the graph runs

Read `spending`, then `works`, which tells what each kernel has to do. `machine` has the limits,
and `plans` the log that hears of graphs while they are compiled. `missed` compares all of these,
`peaks` tells of memory, and `report` writes what the command prints.
"""
