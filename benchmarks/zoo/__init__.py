"""A zoo of programs: architectures of `transformers` and the modules of `torch.nn`, all small."""
