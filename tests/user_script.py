"""A user's script that names all at the top level: mypy reads it with the package (`make types`)."""

import torch

import splinescope as ss

NAMES = (
    ss.ComplexityMonitor, ss.FileFormatError, ss.InputError, ss.LimitReached, ss.MagnetSampler,
    ss.MissingExtraError, ss.PolaritySampler, ss.Slice, ss.SplineNetwork, ss.SplinescopeError, ss.Tiling,
    ss.UnsupportedModelError, ss.compare_models, ss.compare_tilings, ss.curvature, ss.freeze_statistics,
    ss.initialize_, ss.integrated_gradients, ss.load, ss.load_tiling, ss.local_complexity, ss.local_map,
    ss.log_volume, ss.loss_surface, ss.normalization_report, ss.output_range, ss.pick_output, ss.report,
    ss.representation_geometry, ss.skip_conditioning, ss.soften, ss.tessellate, ss.tile_at, ss.token_geometry,
    ss.trace, ss.verify,
)  # fmt: skip

model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
view: ss.Slice = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
tiling: ss.Tiling = ss.tessellate(model, view)
count: int = tiling.count
wrong: str = tiling.count  # type: ignore[assignment]
ss.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.complexity.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.data.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.generative.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.guarantees.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.landscape.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.meanfield.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.network.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.normalization.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.plot.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.reports.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.representation.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.smooth.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.space.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.studio.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.tiling.nothing  # type: ignore[attr-defined]  # noqa: B018
ss.train.nothing  # type: ignore[attr-defined]  # noqa: B018
