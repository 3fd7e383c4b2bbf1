"""The demo: a real pretrained encoder and a small GPT, eagerly and compiled, side by side.

Takes nothing but this package and the packages of the `demo` extra; gives a report on the
terminal, a plot of two loss curves and, on request, the text of every compilation stage.

Read in this order: `workloads` (what is run), `encoder` and `training` (do eager and compiled
agree?), `timing` and `first_result` (how long does it take?), `report` (tables), `command`.
`doctor` stands alone: it needs none of the extra packages.
"""

import os

# The encoder's weights come from an installed package: transformers must never ask the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
