"""
Tokens among the folds of a language model
==========================================

Every MLP of a transformer folds the space of what enters it, and each token has a distance to the nearest fold. Here
the model is a small character-level GPT of the experiments (`pip install splinescope-evidence`) with random weights.
"""

import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss
from splinescope_evidence.shared.char_gpt import CharGPT, encode

torch.manual_seed(0)
model = CharGPT(size=48, heads=4, layers=4, context=64, activation=nn.GELU).eval()
text = "The tiles of a network are convex, and it is affine on each."
ids = encode(text)[None]

# %%
# Distances to the nearest fold, and how many earlier characters attention looks at.

found = ss.token_geometry(model, ids)
print(found.summary())
figure, axes = pyplot.subplots(2, 1, figsize=(10, 5.6), layout="constrained")
found.plot("nearest", tokens=list(text), ax=axes[0])
found.plot("attention", tokens=list(text), ax=axes[1])

# %%
# The affine map at this text, and how far from it the map still tells what the network does.

at = ss.local_map(model.double(), model.letters(ids).detach(), forward=lambda m, e: m(embeddings=e))
print(at.summary())
ax = at.validity([0.01, 0.1, 1.0, 10.0], directions=2).plot()
