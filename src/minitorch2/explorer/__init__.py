"""The stages of compilations as typed records, and the pages that show them.

It takes what the floors report to `stages`, with the objects that the reports are about. It gives
a store of records, a page of HTML, and the trace of a job.

Read `store` first: it holds the records, and opens with their grammar. `recorder` is a log that
fills a store while something is compiled. It calls `capture`, `graphs`, `loops` and `fusion`, which
turn reports into records; `steps` follows the symbolic evaluator. `page` writes a store as one
file, with the style and the scripts in `assets`. `explored` adds the page to an explanation, and
`notebook` what a notebook shows of it.

`trace` writes what all processes of a job compile as lines of JSON. `job` reads these back, and
`summary` tells what they say; `callers` makes a tree of the calls that led to compilations.
`profiled` tells where the time of a run goes. The commands
`explore`, `profile` and `trace` are in `__main__`.

`bisection` finds what makes a program wrong, and `cached` shows what the cache holds.
"""
