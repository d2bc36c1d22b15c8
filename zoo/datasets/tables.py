"""Ratings, house prices, rents and a panel of firms: real responses."""

from __future__ import annotations

from typing import overload

import numpy as np
import pandas as pd

from zoo.data.multitask import MultiTaskData
from zoo.datasets.registry import fetch

__all__ = ["load_grunfeld", "load_king_county", "load_lenk_computers", "load_nyc_rents"]

_LENK_FEATURES = [
    "intercept",
    "hot line",
    "RAM",
    "screen",
    "CPU",
    "hard disk",
    "CD-ROM",
    "cache",
    "colour",
    "availability",
    "warranty",
    "software",
    "guarantee",
    "price",
]

# Inclusive bounds, in dollars a month and in degrees.
_RENT_BOUNDS = {"price": (500.0, 20_000.0), "longitude": (-74.26, -73.70), "latitude": (40.49, 40.92)}


def load_lenk_computers() -> MultiTaskData:
    """Ratings of 20 computer profiles by 190 persons; persons are tasks.

    Returns
    -------
    MultiTaskData
        3,800 rows. ``y`` is the stated likelihood of buying, 0-10. ``X`` has 14 features in {-1, 1}, the
        first of them the intercept. Rows run through the profiles of person 1, then of person 2, and so on:
        the profile of each row is ``np.arange(data.n_rows) % 20``. In the source, profiles 0-15 serve for
        calibration and 16-19 for validation: ``data.take(np.arange(data.n_rows) % 20 < 16)`` trains.

    Raises
    ------
    FileNotFoundError
        The file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        The file has a wrong checksum.

    Notes
    -----
    One person gave the same rating to every profile.
    Source: Lenk, DeSarbo, Green and Young (1996), Marketing Science 15, 173-191; file of the PMTK project.
    """
    from scipy.io import loadmat

    file = loadmat(fetch("lenk/conjointAnalysisComputerBuyers.mat"))
    design, ratings = file["designMarix"], file["likeBuy"]  # the file spells it so
    n_persons, n_profiles = ratings.shape
    return MultiTaskData.from_arrays(
        X=np.tile(design, (n_persons, 1)),
        y=ratings.ravel(),
        task=np.repeat(np.arange(n_persons), n_profiles),
        task_names=[f"person {i}" for i in range(1, n_persons + 1)],
        feature_names=_LENK_FEATURES,
    )


def load_king_county() -> MultiTaskData:
    """Prices of 21,613 houses sold in King County, May 2014 to May 2015; postal codes are tasks.

    Returns
    -------
    MultiTaskData
        70 tasks, named by postal code. ``y`` is the price in dollars. ``X`` has 15 features: rooms, areas in
        square feet, floors, ratings, years built and renovated (0: never). ``t`` has three columns:
        longitude and latitude in degrees, and the days since the first sale.

    Raises
    ------
    FileNotFoundError
        The file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        The file has a wrong checksum.

    Notes
    -----
    ``sqft_living`` is the sum of ``sqft_above`` and ``sqft_basement``: leave one out in a model without a
    proper prior. Some houses were sold twice, and the file does not say which. One has 33 bedrooms.
    Source: King County house sales, as on Kaggle (no licence stated).
    """
    frame = pd.read_csv(fetch("kc_house/kc_house_data.csv"), index_col=0)
    date = pd.to_datetime(frame["date"], format="%Y%m%dT%H%M%S")
    frame["day"] = (date - date.min()).dt.days
    frame["zipcode"] = frame["zipcode"].astype(str)
    return MultiTaskData.from_frame(
        frame.drop(columns="date"), y="price", task="zipcode", t=["long", "lat", "day"]
    )


def load_nyc_rents(filter_outliers: bool = True) -> MultiTaskData:
    """Monthly rents of New York flats, by place: one task.

    Parameters
    ----------
    filter_outliers : bool
        Keep the rows with a price of 500 to 20,000 dollars, a longitude of -74.26 to -73.70 and a latitude of
        40.49 to 40.92 degrees, bounds included: 49,194 of 49,352. The others are sales, typing errors and
        places outside the city.

    Returns
    -------
    MultiTaskData
        ``y`` is the rent in dollars. ``X``: ``bathrooms``, ``bedrooms``, ``interest medium``,
        ``interest high`` (0/1, against low interest of readers in the advertisement). ``t``: longitude and
        latitude in degrees.

    Raises
    ------
    FileNotFoundError
        The file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        The file has a wrong checksum.

    Notes
    -----
    Source: advertisements of April to June 2016, by way of Kaggle (no licence stated) and the
    random-forest-importances project.
    """
    frame = pd.read_csv(fetch("nyc_rent/rent.csv"))
    if filter_outliers:
        keep = np.ones(len(frame), dtype=bool)
        for column, (low, high) in _RENT_BOUNDS.items():
            keep &= frame[column].between(low, high).to_numpy()
        frame = frame[keep]
    features = frame[["bathrooms", "bedrooms"]].assign(
        **{"interest medium": frame["interest_level"] == 2, "interest high": frame["interest_level"] == 3}
    )
    return MultiTaskData.from_arrays(
        X=features.astype(np.float64),
        y=frame["price"],
        t=frame[["longitude", "latitude"]],
        task_names=["New York"],
    )


@overload
def load_grunfeld(test_years: None = None) -> MultiTaskData: ...
@overload
def load_grunfeld(test_years: int) -> tuple[MultiTaskData, MultiTaskData]: ...
def load_grunfeld(test_years: int | None = None) -> MultiTaskData | tuple[MultiTaskData, MultiTaskData]:
    """Investment of 11 firms over 20 years, 1935-1954; firms are tasks. Shipped with the package.

    Parameters
    ----------
    test_years : int, optional
        1 .. 19: training data without the last years, and test data of these. Left out: all the data.

    Returns
    -------
    MultiTaskData, or (train, test)
        220 rows, firm by firm, years ascending. ``y`` is the gross investment; ``X`` has the firm's ``value``
        and ``capital`` stock, all in millions of dollars of 1947, and the ``intercept``.

    Raises
    ------
    ValueError
        ``test_years`` is out of range.

    Notes
    -----
    Public domain. Source: Grunfeld (1958), PhD thesis, University of Chicago, as restored by Kleiber and
    Zeileis (2010), German Economic Review 11, 404-417; the table is the one statsmodels ships.
    """
    from importlib.resources import files

    with files("zoo.datasets").joinpath("grunfeld.csv").open(encoding="utf-8") as table:
        frame = pd.read_csv(table)
    years = frame["year"].to_numpy()
    n_years = len(np.unique(years))
    whole = isinstance(test_years, int | np.integer) and not isinstance(test_years, bool)
    if test_years is not None and not (whole and 1 <= test_years < n_years):
        raise ValueError(f"test_years is {test_years!r}. Give a whole number from 1 to {n_years - 1}.")
    data = MultiTaskData.from_arrays(
        X=frame[["value", "capital"]],
        y=frame["invest"],
        task=frame["firm"],
        task_names=list(frame["firm"].unique()),  # in the source's order
    ).add_intercept()
    if test_years is None:
        return data
    in_train = years <= years.max() - test_years
    return data.take(in_train), data.take(~in_train)
