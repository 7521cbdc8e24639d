"""The Python that makes the picture under the microscope; run where the studio was started, it gives the same tiles."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tiling import Tiling
from .library import EXAMPLE, MOST_EXAMPLES, Library, Specimen
from .slices import as_ends

IMPORTS = "import numpy as np\nimport splinescope as ss\nimport torch\n"


def microscope_code(
    library: Library, specimen: Specimen, *, spec: Any, window: Any, moment: int | None, color: str, walls: bool,
    boundary: bool, tiling: Tiling,
) -> str:  # fmt: skip
    """Code for the tiling that a pane shows: of the slice `spec` and `window`, as `slices` took them, or of a `moment`.

    `color` is what tiles are colored by; "folds" for walls alone, by layer.
    """
    if specimen.tiling is not None:
        made = [f"tiling = ss.load_tiling({library.written(specimen.name)!r})"]
    elif specimen.story is not None:
        made = [f"tiling = ss.complexity.load_timeline({library.written(specimen.name)!r}).tilings[{moment}]"]
    else:
        made = _network(library, specimen)
        of_examples = moment is not None or _names_examples(spec)
        found = library.examples(specimen.input_shape) if of_examples else None
        if found is not None and len(found.data):
            made.append(f"data = {found.made_by}.reshape(-1, {', '.join(map(str, specimen.input_shape))})")
        made += _view(spec, specimen.input_shape)
        if window is not None:
            x0, y0, x1, y1 = window
            corners = f"[[{x0}, {y0}], [{x1}, {y0}], [{x1}, {y1}], [{x0}, {y1}]]"
            made.append(f"view = ss.Slice(view.origin, view.basis, {corners}, view.anchors)  # what is in sight")
        if moment is None:
            made.append("tiling = ss.tessellate(net, view)")
        else:
            x = f"data[:{MOST_EXAMPLES}]" if found is not None and len(found.data) else "view.inputs(view.domain)"
            folder = library.written(specimen.name)
            made.append(
                f'life = ss.complexity.timeline(model, {folder!r}, view, x={{"train": {x}.astype(np.float32)}})'
            )
            made.append(f"tiling = life.tilings[{moment}]")
    drawn = [f"ax = tiling.plot(color={None if color == 'folds' else color!r})"]
    boundary = boundary and tiling.values is not None
    if tiling.dimension == 2 and color == "folds":
        drawn = ["ax = ss.plot.plot_folds(tiling)", *(["ss.plot.plot_boundary(tiling, ax)"] if boundary else [])]
    elif tiling.dimension == 2:
        drawn = [f"ax = tiling.plot(color={color!r}, edges={walls}, boundary={boundary})"]
    return "\n".join([IMPORTS, *made, *drawn, 'ax.figure.savefig("microscope.png")', ""])


def _network(library: Library, specimen: Specimen) -> list[str]:
    if specimen.name == EXAMPLE:
        return ["from splinescope.studio.library import digit_network", "", "net = digit_network()"]
    if specimen.weights is None:
        return [f"net = ss.load({library.written(specimen.name)!r})"]
    assert library.factory is not None
    module, _, factory = library.factory.partition(":")
    weights = library.written(specimen.name) + ("" if specimen.folder is None else f"/{specimen.weights.name}")
    return [
        f"from {module} import {factory}",
        "from safetensors.torch import load_file",
        "",
        f"model = {factory}()",
        f"model.load_state_dict(load_file({weights!r}))",
        f"net = ss.trace(model.eval(), torch.zeros(2, {', '.join(map(str, specimen.input_shape))}))",
    ]


def _names_examples(spec: Mapping[str, Any]) -> bool:
    """Whether a slice is laid through examples, itself or by the one that its point lies on."""
    return spec["kind"] == "through" or (spec["kind"] == "point" and _names_examples(spec["of"]))


def _view(spec: Mapping[str, Any], shape: tuple[int, ...], name: str = "view") -> list[str]:
    kind = spec["kind"]
    if kind == "through":
        return [f"{name} = ss.Slice.through(*data[{spec['rows']}], pad=0.15)"]
    if kind == "axes":
        axes = tuple(spec.get("axes", (0, 1)))
        low, high = as_ends(spec.get("low", -1.0)), as_ends(spec.get("high", 1.0))
        center = f"np.zeros({shape})"
        if spec.get("center") is not None:
            center = f"np.array({np.array(spec['center'], dtype=float).ravel().tolist()}).reshape({shape})"
        return [f"{name} = ss.Slice.axes({center}, {axes}, {low}, {high})"]
    half, seed = float(spec.get("half", 1.0)), spec.get("seed", 0)
    random = f"half_width={half}, generator=torch.Generator().manual_seed({seed})"
    if kind == "random":
        return [f"{name} = ss.Slice.box(np.zeros({shape}), {random})"]
    return [*_view(spec["of"], shape, "base"), f"{name} = ss.Slice.box(base.inputs([{spec['at']}])[0], {random})"]
