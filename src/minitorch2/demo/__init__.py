"""The demo: a real pretrained encoder and a small GPT, eagerly and compiled, side by side.

It takes only this package and the packages of the `demo` extra. It gives a report on the terminal,
a plot of two loss curves and, on request, the text of every compilation stage.

Read in this order: `workloads` (the programs), `encoder` and `training` (the comparison of eager
and compiled), `timing` and `first_result` (the seconds), `report` (tables), `command`. The module
`doctor` needs none of the extra packages.
"""

import os

# The encoder's weights come from an installed package: transformers must never ask the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
