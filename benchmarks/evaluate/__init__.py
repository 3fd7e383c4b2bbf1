"""The evaluation of the PyTorch 2 paper, in kind: many models, every backend, one row for each.

    python -m benchmarks evaluate [--suite NAME] [--backend NAME] [--inference | --training]
                                  [--float32 | --float16 | --bfloat16 | --amp] [--freezing]
                                  [--shard 0/8] --output FOLDER

evaluation ::= suite*           `suites`: lists of models; those of absent packages are left out
suite      ::= case*            a model in one mode, with fresh random inputs
row        ::= (case, setting, backend) → speedup over eager | the reason of a failure
             | "not offered"    where the backend says so (`peers.LACKS`): nothing is run

Each row is measured by two processes of its own (`worker`). The first one begins with an empty
cache, compares two results with eager's, and lets eager and the backend take turns. The second one
finds the cache warm, and measures its first call. A row that fails or takes longer than the limit
counts as a speedup of 0 (paper, section 6). Rows are written as they come: a run that was ended
goes on where it stopped, and several shards may write to one folder (`rows`). `tables` makes of the
rows the paper's Table 3 and Figure 4, and a table of compile times, which the paper does not have.
"""
