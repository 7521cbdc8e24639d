"""
An MLP of a language model by itself
====================================

A transformer has no tiles, but most of its parameters lie in MLPs that have: exact ones with ReLU, within a tolerance
with GELU. `block` takes such a part out with the activations that really enter it, and every tool runs on it.
The language model is the small one of the experiments (`pip install splinescope-evidence`).
"""

import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss
from splinescope_evidence.shared.char_gpt import CharGPT, encode, prose, train

text = "The tiles of a network are convex, and it is affine on each."
ids = encode(text)[None]


def trained(activation: type[nn.Module]) -> CharGPT:
    """A small GPT after a few steps on the language reference that ships with Python."""
    torch.manual_seed(0)
    model = CharGPT(size=32, heads=2, layers=2, context=64, activation=activation)
    train(model, prose(), 25, 64, torch.Generator().manual_seed(0), set(), lambda step: None)
    return model


# %%
# The plane through what enters the second MLP at three tokens of the text. With ReLU its tiles are exact, with GELU
# those of a network within 0.5 of it at all outputs.

letters = "Txf"
places = [text.index(letter) for letter in letters]
figure, axes = pyplot.subplots(1, 2, figsize=(8.6, 3.8), layout="constrained")
parts = {}
for ax, activation in zip(axes, (nn.ReLU, nn.GELU), strict=True):
    part = ss.smooth.block(trained(activation), "layers.1.mlp", ids)
    view = ss.Slice.through(*part.inputs[places], pad=0.15)
    tiling = ss.tessellate(part, view, tolerance=0.5, progress=False)
    tiling.plot(color="slope", ax=ax, log=False)
    for letter, anchor in zip(letters, view.anchors, strict=True):
        ax.annotate(letter, anchor, (7, 7), textcoords="offset points", color="black", bbox={"color": "white"})
    exact = activation is nn.ReLU
    ax.set_title(f"{activation.__name__}: {tiling.count} tiles, {'exact' if exact else f'within {tiling.bound:.2g}'}")
    parts[activation] = part

# %%
# Every token among the folds of that MLP: how many lie within a distance of it, and how far the nearest is.

part = parts[nn.ReLU]
near = ss.local_complexity(part, part.inputs, radius=0.1, progress=False)
print(near)
distances = ss.normalization.fold_distances(part, part.inputs)
print(distances.summary())

# %%
# And the tokens through its depth: rank, angles and lengths before the layer, in its middle and after it.

print(ss.representation_geometry(part, part.inputs).summary())
