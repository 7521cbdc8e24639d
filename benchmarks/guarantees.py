"""Speed of `verify`: `python -m benchmarks.guarantees [FOLDER]` rewrites docs/benchmarks/guarantees*.csv.

FOLDER holds `instances.csv` (network, property, verdict, published seconds) and the files it names, by default those of
SPLINESCOPE_TEST_DATA. Networks are loaded and kernels warm; CPU seconds of one thread for the verdict alone.
"""

from __future__ import annotations

import csv
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import splinescope as ss
from benchmarks.tables import write_table
from splinescope.guarantees import Property, read_vnnlib

WORDS = {True: "unsat", False: "sat", None: "open"}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for inputs in (2, 3):  # kernels of polygons and of solids
        warm = nn.Sequential(nn.Linear(inputs, 4), nn.ReLU(), nn.Linear(4, 1))
        ss.verify(warm, Property.between(0, 0.0, 0.1), (-1.0, 1.0), complete=True, progress=False)
    networks: dict[str, ss.SplineNetwork] = {}
    rows: list[tuple[str, str, str, str, float, int, int, str, str]] = []
    with (folder / "instances.csv").open() as file:
        for row in csv.DictReader(file):
            name = row["network"]
            if name not in networks:
                networks[name] = ss.load(folder / name)
            asked = read_vnnlib(folder / row["property"])
            started = time.process_time()
            found = ss.verify(networks[name], asked, time_limit=120.0, progress=False)
            spent = time.process_time() - started
            published = (row["nnenum_2022_s"], row["alpha_beta_crown_2022_s"])
            rows.append((name, row["property"], row["verdict"], WORDS[found.holds], spent, found.tiles, found.cells,
                         *(f"{float(p):.2f}" if p else "-" for p in published)))  # fmt: skip
            print(*rows[-1], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kinds = []
    for kind in dict.fromkeys(row[0].split("/")[0] for row in rows):
        some = [row for row in rows if row[0].startswith(kind)]
        spent = [row[4] for row in some]
        right = sum(row[2] == row[3] for row in some)
        kinds.append((kind, len(some), right, f"{np.median(spent):.3f}", f"{max(spent):.2f}", f"{sum(spent):.1f}"))
    write_table("guarantees", ("kind", "instances", "right", "median s", "largest s", "all s"), kinds)
    each = []
    for a, b, c, d, e, f, g, h, i in rows:
        names = Path(a).stem.replace("ACASXU_run2a_", "").replace("_batch_2000", ""), Path(b).stem
        each.append((*names, c, d, f"{e:.3f}", f"{f:,}", f"{g:,}", h, i))
    head = ("network", "property", "published", "found", "s", "tiles", "cells", "nnenum s", "alpha-beta-CROWN s")
    write_table("guarantees_instances", head, each)
    print(f"Peak memory of the whole run, all networks loaded: {peak:.0f} MB.")


if __name__ == "__main__":
    default = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data")) / "vnnlib"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
