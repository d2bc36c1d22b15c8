"""Data sets of multi-task papers, and simulators that return their truth.

A loader looks for its files in the folder named by the environment variable ``ZOO_DATA``, then in the cache
(``ZOO_CACHE``, else pooch's cache folder), and downloads what is missing from an address pinned to a commit.
Every file is held against its sha256 checksum.
"""

from zoo.datasets.choices import simulate_choices
from zoo.datasets.groups import simulate_groups
from zoo.datasets.multilabel import (
    SparseMultiLabel,
    load_cal500,
    load_emotions,
    load_rcv1_subset,
    load_scene,
    load_yeast,
)
from zoo.datasets.posteriordb import to_posteriordb
from zoo.datasets.registry import fetch
from zoo.datasets.school import load_school
from zoo.datasets.simulate import simulate_conjoint, simulate_joint_selection, simulate_matrix_normal
from zoo.datasets.tables import load_grunfeld, load_king_county, load_lenk_computers, load_nyc_rents

__all__ = [
    "SparseMultiLabel",
    "fetch",
    "load_cal500",
    "load_emotions",
    "load_grunfeld",
    "load_king_county",
    "load_lenk_computers",
    "load_nyc_rents",
    "load_rcv1_subset",
    "load_scene",
    "load_school",
    "load_yeast",
    "simulate_choices",
    "simulate_conjoint",
    "simulate_groups",
    "simulate_joint_selection",
    "simulate_matrix_normal",
    "to_posteriordb",
]
