"""Public test tools, usable on any compiler.

Takes nothing but a compiler or an interpreter to examine; gives Hypothesis strategies and
comparisons with eager PyTorch. Reading order: `assertions`, `programs`
(random programs), `loop_bodies` (random loop graphs).
"""
