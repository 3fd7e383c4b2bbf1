"""Public test tools: Hypothesis strategies and comparisons with eager PyTorch."""
