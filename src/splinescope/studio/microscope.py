"""What the microscope's page can ask for. Each verb takes (what the page keeps, its job, the message)."""

from typing import Any

import numpy as np

from ..complexity import timeline
from ..complexity.timeline import Timeline
from ..network.program import site_names, units_of_cuts
from ..plot.frame import tiling_frame
from ..plot.solid_frame import solid_frame
from ..support.checks import as_float64_array, check_choice
from ..support.errors import InputError, LimitReached
from ..tiling import Slice, Tiling, tessellate
from ..tiling.measures.quantities import available
from .jobs import TORCH, Job
from .library import MOST_EXAMPLES, Library, Specimen, tiling_file
from .python_code import microscope_code
from .slices import read_slice, windowed

MOST_TILES = 1_000_000
_LARGEST_IMAGE = 3 * 64 * 64
_MOST_SHOWN = 12
_MOST_NAMED = 32
"""Inputs that are told by the names of their columns, where they are no image."""
_KEPT = 2
"""Pictures of a pane whose tilings are kept: that on the page, and one that may be on its way."""


class Microscope:
    """The verbs over one library. A picture is known by its pane and by the `id` of the request that made it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.verbs = {
            "entries": self.entries, "open": self.open, "examples": self.examples, "tile": self.tile,
            "details": self.details, "timeline": self.timeline, "moment": self.moment, "take": self.take,
            "code": self.code,
        }  # fmt: skip

    def entries(self, _kept: dict[str, Any], _job: Job, _message: dict[str, Any]) -> dict[str, Any]:
        return {"entries": self.library.entries()}

    def open(self, _kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """What an entry is: its shape, its sites, what can be done with it."""
        specimen = self.library.specimen(message.get("name"))
        network = specimen.network
        return {
            "name": specimen.name,
            "shape": list(specimen.input_shape),
            "tiles": network is not None,
            "lives": specimen.folder is not None or specimen.story is not None,
            "sites": [] if network is None else [[site.path, site.op, site.units] for site in network.sites],
            "outputs": None if network is None else int(np.prod(network.output_shape)),
            "ending": None if network is None else network.ending,
            "ranges": specimen.ranges,
        }

    def examples(self, _kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """Thumbnails to choose from, as gray or color bytes where examples are images."""
        shape = self.library.specimen(message.get("name")).input_shape
        found = self.library.examples(shape)
        data = found.data[found.offered]
        image = image_shape(shape)
        pixels, brightness = np.zeros(0, np.uint8), None
        if len(data) and image is not None:
            low, high = brightness = [float(data.min()), float(data.max())]
            pixels = ((data - low) / (high - low or 1.0) * 255).astype(np.uint8)
        return {
            "frame": {
                "rows": found.offered, "names": [found.names[row] for row in found.offered], "image": image,
                "pixels": pixels.ravel(), "range": brightness, "count": len(found.data), "start": found.start,
                "from": found.file, "unread": found.unread, "columns": found.columns, "classes": found.classes_from,
            }
        }  # fmt: skip

    def tile(self, kept: dict[str, Any], job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """Tile a slice, or a window of it; progress goes to the page, which may cancel."""
        specimen = self.library.specimen(message.get("name"))
        window = message.get("window")
        if specimen.tiling is not None:
            return self._shown(kept, message, specimen.tiling, None)
        if specimen.network is None:
            raise InputError(f"{specimen.name} has tilings only: choose one of its moments.")
        view = windowed(self._slice(specimen, message), window)
        incomplete = None
        tiling: Any
        try:  # one thread: its progress may end it at any chunk, and two pages then share two cores
            tiling = tessellate(specimen.network, view, progress=job.progress, threads=1, max_tiles=MOST_TILES)
        except LimitReached as limit:
            where = "plane is empty here. Zoom in." if view.dimension == 2 else "space is empty here. Take less of it."
            tiling, incomplete = limit.partial, f"Over {MOST_TILES:,} tiles: part of the {where}"
        assert isinstance(tiling, Tiling)
        return self._shown(kept, message, tiling, incomplete)

    def details(self, kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """All about the tile at a point: its map, its units, how steep it is in the whole input space."""
        tiling = self._kept(kept, message)
        if tiling.dimension != 2:
            raise InputError("details are told of tiles of a plane.")
        number = int(tiling.locate(as_float64_array([[message.get("x"), message.get("y")]], "x, y"))[0])
        if number < 0:
            raise InputError("there is no tile at this point.")
        cuts = tiling.corner_labels[slice(*tiling.tiles.offsets[number : number + 2])]
        names = site_names(tiling.sites)
        units: dict[int, set[int]] = {}
        for site, unit in zip(*(part.tolist() for part in units_of_cuts(tiling.sites, cuts)), strict=True):
            units.setdefault(site, set()).add(unit)
        walls = [_walls_of(names, site, sorted(units[site])) for site in sorted(units)]
        answer: dict[str, Any] = {"tile": number, "area": float(tiling.areas[number]), "walls": walls}
        if tiling.values is not None or tiling.network is not None:
            answer["slope"] = tiling.slopes([number])[0][:_MOST_SHOWN].tolist()
            answer["offset"] = tiling.offsets([number])[0][:_MOST_SHOWN].tolist()
        if tiling.network is not None:
            answer["input norm"] = float(tiling.input_slope_norms([number])[0])
            answer["units"] = sum(site.units for site in tiling.sites)
        return answer

    def timeline(self, kept: dict[str, Any], job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """The steps and measures of a network's life on one slice; `moment` then shows each."""
        specimen = self.library.specimen(message.get("name"))
        story = specimen.story
        if story is None:
            if specimen.folder is None or specimen.model is None:
                raise InputError(f"{specimen.name} has no checkpoints.")
            view = self._slice(specimen, message)
            known = self.library.examples(specimen.input_shape)
            some = known.data[:MOST_EXAMPLES]
            points = {"train": (some if len(some) else view.inputs(view.domain)).astype(np.float32)}
            labels = {} if known.labels is None else {"train": known.labels[:MOST_EXAMPLES]}
            with TORCH:  # it reads checkpoints into the module
                story = timeline(
                    specimen.model, specimen.folder, view, x=points, y=labels, radius=message.get("radius", "auto"),
                    max_tiles=MOST_TILES, progress=job.progress,
                )  # fmt: skip
        kept[f"story {message.get('pane')}"] = story
        measures = {name: [_finite(v) for v in values] for name, values in story.measures.items()}
        return {"steps": story.steps.tolist(), "measures": measures}

    def moment(self, kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        return self._shown(kept, message, self._moment(kept, message, message.get("index")), None)

    def _moment(self, kept: dict[str, Any], message: dict[str, Any], index: Any) -> Tiling:
        story = kept.get(f"story {message.get('pane')}")
        if not isinstance(story, Timeline) or not isinstance(index, int) or not 0 <= index < len(story.steps):
            raise InputError("there is no such moment: open a timeline first.")
        return story.tilings[index]

    def take(self, kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        return {"frame": tiling_file(self._kept(kept, message), "microscope")}

    def code(self, kept: dict[str, Any], _job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """The Python that makes what a pane shows."""
        tiling, specimen = self._kept(kept, message), self.library.specimen(message.get("name"))
        if specimen.network is not None:
            windowed(self._slice(specimen, message), message.get("window"))  # refuses what is no slice
        moment = message.get("moment")
        if moment is not None:
            self._moment(kept, message, moment)
        color = check_choice(str(message.get("color")), "color", (*available(tiling), "folds"))
        code = microscope_code(
            self.library, specimen, spec=message.get("slice"), window=message.get("window"), moment=moment,
            color=color, walls=bool(message.get("walls", True)), boundary=bool(message.get("boundary", True)),
            tiling=tiling,
        )  # fmt: skip
        return {"code": code}

    def _slice(self, specimen: Specimen, message: dict[str, Any]) -> Slice:
        try:
            shape = specimen.input_shape
            return read_slice(message.get("slice"), shape, lambda: self.library.examples(shape).data)
        except (TypeError, ValueError, OverflowError) as error:
            raise error if isinstance(error, InputError) else InputError(f"the slice is not valid: {error}") from error

    def _kept(self, kept: dict[str, Any], message: dict[str, Any]) -> Tiling:
        """The tiling of the picture that the page means: another may have been made since it was drawn."""
        pictures = kept.get(str(message.get("pane")), ())
        for picture, tiling in pictures:
            if picture == message.get("picture"):
                assert isinstance(tiling, Tiling)
                return tiling
        raise InputError("this picture is gone: tile it again." if pictures else "tile something first.")

    def _shown(
        self, kept: dict[str, Any], message: dict[str, Any], tiling: Tiling, incomplete: str | None
    ) -> dict[str, Any]:
        if str(message.get("pane")) not in ("a", "b"):
            raise InputError("pane must be 'a' or 'b'.")
        pane = str(message["pane"])
        if not message.get("film"):  # else the page's own picture would be gone
            kept[pane] = [*kept.get(pane, []), (message.get("id"), tiling)][-_KEPT:]
        if tiling.dimension == 3:
            shown = solid_frame(tiling, title=str(message.get("name")))
            return {"frame": {**shown, "incomplete": incomplete, "space": True}}
        view = tiling.view
        image = image_shape(view.input_shape)
        small = view.origin.size <= (_LARGEST_IMAGE if image else _MOST_NAMED)
        frame = {
            **tiling_frame(tiling, title=str(message.get("name"))),
            "incomplete": incomplete,
            "window": message.get("window") is not None,
            "image": image if small else None,
            "origin": view.origin.astype(np.float32).ravel() if small else np.zeros(0, np.float32),
            "basis": view.basis.astype(np.float32).ravel() if small else np.zeros(0, np.float32),
        }
        return {"frame": frame}


def image_shape(shape: tuple[int, ...]) -> list[int] | None:
    """[channels, height, width] if inputs of this shape may be images; None if not."""
    sizes = list(shape)
    if len(sizes) == 1 and int(np.sqrt(sizes[0])) ** 2 == sizes[0] and sizes[0] >= 16:
        return [1, int(np.sqrt(sizes[0])), int(np.sqrt(sizes[0]))]
    while len(sizes) > 3 and sizes[0] == 1:
        sizes = sizes[1:]
    if len(sizes) == 2:
        sizes = [1, *sizes]
    return sizes if len(sizes) == 3 and sizes[0] in (1, 3) and min(sizes[1:]) >= 4 else None


def _walls_of(names: list[str], site: int, units: list[int]) -> str:
    if site < 0:
        return "the edge of the slice"
    return f"site {names[site]}, {'unit' if len(units) == 1 else 'units'} {', '.join(map(str, units))}"


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
