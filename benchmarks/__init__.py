"""Benchmarks: ratios measured side by side, never alone.

`python -m benchmarks {kernels,models,overhead,compile_time,table1} [--peer]`. Before anything is
timed, each compiler's result is compared with eager's. Variants take turns in one process and
medians are reported; compile times are measured in processes of their own with empty caches.
`breadth` is the exception: each compiler has a process of its own, and the processes take turns.
`table1` times nothing: it counts what is captured. Each run also writes
`benchmarks/results/<suite>.json`.
"""
