"""The command that shows and moves what the cache holds: `python -m minitorch2 cache`.

It takes the folder of `minitorch2.cache`, and gives lines or JSON. It needs no PyTorch. `report`
says why a key missed.
"""
