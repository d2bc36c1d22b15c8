"""The numbers of Li, Zhu & Chen (2014)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__all__ = ["PAPER_TABLE_2", "PAPER_TABLE_3", "PAPER_TABLE_4"]

SCHOOL = "School"

PAPER_TABLE_2 = {
    "LR": {
        "emotions": (54.83, 1.63),
        "CAL500": (32.05, 1.63),
        "scene": (61.65, 1.45),
        "yeast": (61.44, 0.92),
    },
    "MTL-C": {
        "emotions": (63.50, 1.67),
        "CAL500": (33.51, 1.39),
        "scene": (64.98, 0.66),
        "yeast": (61.86, 0.69),
    },
    "MTL-F": {
        "emotions": (64.51, 1.10),
        "CAL500": (34.01, 1.47),
        "scene": (64.23, 0.89),
        "yeast": (62.66, 0.55),
    },
    "BM-MTL (I-Ω, I-R)": {
        "emotions": (64.16, 1.19),
        "CAL500": (34.65, 1.06),
        "scene": (65.85, 0.78),
        "yeast": (63.75, 0.57),
    },
    "BM-MTL (Ω, I-R)": {
        "emotions": (65.22, 1.34),
        "CAL500": (34.91, 1.05),
        "scene": (65.97, 0.70),
        "yeast": (64.20, 0.59),
    },
    "BM-MTL (I-Ω, R)": {
        "emotions": (64.97, 1.37),
        "CAL500": (35.07, 1.22),
        "scene": (66.30, 0.70),
        "yeast": (64.16, 0.53),
    },
    "BM-MTL (Ω, R)": {
        "emotions": (65.67, 1.32),
        "CAL500": (35.54, 1.09),
        "scene": (66.33, 0.70),
        "yeast": (64.36, 0.58),
    },
    "MT-iLSVM": {
        "emotions": (62.27, 2.25),
        "CAL500": (32.20, 1.09),
        "scene": (62.27, 2.46),
        "yeast": (61.81, 0.60),
    },
    "NPBM-MTL (Z, R)": {
        "emotions": (65.53, 1.34),
        "CAL500": (35.67, 0.69),
        "scene": (66.85, 0.55),
        "yeast": (64.21, 0.44),
    },
}
PAPER_TABLE_3 = {
    "STL": (23.5, 1.9),
    "BMTL": (29.5, 0.4),
    "MTGP": (29.2, 1.6),
    "MTRL": (29.9, 1.8),
    "MT-iLSVM": (31.13, 1.15),
    "BM-MTL (I-Ω, I-R)": (31.12, 1.02),
    "BM-MTL (Ω, I-R)": (31.21, 1.02),
    "BM-MTL (I-Ω, R)": (31.54, 1.04),
    "BM-MTL (Ω, R)": (31.56, 1.09),
    "NPBM-MTL (Z, R)": (31.86, 1.00),
}
PAPER_TABLE_4 = {
    "emotions": (57.8, 2.0),
    "CAL500": (4.4, 0.5),
    "scene": (48.2, 1.9),
    "yeast": (4.8, 0.8),
    SCHOOL: (14.8, 1.1),
}
