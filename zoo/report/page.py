"""The report as one HTML page that needs no other file and no network."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo._version import __version__
from zoo.core.completeness import shortfall
from zoo.core.convergence import LARGEST_R_HAT, LEAST_ESS
from zoo.core.verdict import verdict_of, verdict_text
from zoo.report.accuracy import Accuracy
from zoo.report.pictures import Picture
from zoo.report.printing import number
from zoo.report.prior_share import MOSTLY
from zoo.report.tables import units_table
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["page"]

_WORST_ROWS = 8
_SUMMARY_ROWS = 12
# Nothing is fetched and nothing runs, whatever the names of tasks and features may hold.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --soft: #5b6875; --line: #dde3e9; --back: #f5f7f9; --card: #fff;
  --good: #1a7f4b; --bad: #b3261e; --link: #1f5fa8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0 0.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 0.6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 0.4rem; }
p { margin: 0.4rem 0; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 0.6rem; padding: 1.1rem 1.2rem;
  margin-top: 1.1rem; }
.lead, .note, figcaption { color: var(--soft); }
.note, figcaption { font-size: 0.9rem; }
.verdict { display: inline-block; border-radius: 1rem; padding: 0.1rem 0.8rem; color: #fff; font-weight: 600; }
.good { background: var(--good); } .bad { background: var(--bad); } .plain { background: var(--soft); }
.scroll { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem 0.3rem 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; font-weight: normal; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
tr.own td, tr.own th { font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.2rem; margin: 0.6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0 0; } figure img { display: block; max-width: min(100%, 46rem); height: auto; margin: 0 auto; }
pre { background: var(--back); border-radius: 0.4rem; padding: 0.7rem 0.9rem; overflow-x: auto; font-size: 0.9rem; }
nav a { margin-right: 1rem; display: inline-block; } a { color: var(--link); }
footer { color: var(--soft); font-size: 0.85rem; margin-top: 1.5rem; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.5rem; }
  h1 { font-size: 1.35rem; } section { padding: 0.9rem; }
  tbody th:first-child { white-space: normal; min-width: 9rem; overflow-wrap: anywhere; } }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --soft: #9aa7b3; --line: #3a444e;
  --back: #15191d; --card: #1e242a; --link: #7fb4ee; } figure img { background: #fff; border-radius: 0.4rem; }
  .plain { background: #5b6875; } }
@media print { body { background: #fff; } section { border: 0; padding: 0; } nav { display: none; } }
"""


# What the report says of a fit without the draws of its tasks.
_KEPT = {
    "moments": "the draws of the population, and means and standard deviations of each task (keep='moments')",
    "population": "the draws of the population; coefficients of tasks are drawn again (keep='population')",
}


def page(
    fit: Fit,
    folder: Path,
    pictures: Sequence[Picture],
    summary: pd.DataFrame,
    diagnostics: pd.DataFrame | None,
    priors: pd.DataFrame | None,
    accuracy: Accuracy | None,
    saved_as: str | os.PathLike[str] | None,
) -> str:
    """The page; the pictures are read from the folder."""
    name = type(fit.factory).__name__
    sections = [
        ("fitted", "What was fitted", _fitted(fit)),
        ("converged", "Did it converge?", _converged(fit, diagnostics)),
        ("accuracy", "How accurate is it?", _accuracy(accuracy, name)),
        *([] if priors is None else [("priors", "What do the data say beside the prior?", _priors(priors))]),
        ("pictures", "Pictures", "".join(_picture(folder, picture) for picture in pictures)),
        ("numbers", "The posterior in numbers", _numbers(fit, summary)),
        ("load", "Go on with this fit", _load(fit, saved_as)),
    ]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in sections)
    body = "".join(
        f'<section id="{key}"><h2>{escape(title)}</h2>{content}</section>' for key, title, content in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>Report of {escape(name)}</title><style>{_STYLE}</style></head>"
        f'<body><main><h1>{escape(name)}</h1><p class="lead">{escape(_lead(fit))}</p><nav>{links}</nav>'
        f"{body}<footer>Written by zoo {escape(__version__)}. The tables are beside this page as CSV files.</footer>"
        "</main></body></html>\n"
    )


# -------------------------------------------------------------------- sections


def _lead(fit: Fit) -> str:
    data = fit.data
    rows = counted(data.stands_for or data.n_rows, "row", ",")
    return f"{counted(data.n_tasks, 'task', ',')}, {rows}, {counted(data.n_features, 'feature', ',')}."


def _fitted(fit: Fit) -> str:
    factory, sizes = fit.factory, fit.posterior.sizes
    method = factory.method_named(fit.method)
    counts = np.bincount(fit.data.task, minlength=fit.data.n_tasks)
    facts = [
        ("model", ((type(factory).__doc__ or "").strip().splitlines() or [type(factory).__name__])[0]),
        ("method", fit.method if method is None else f"{fit.method}: {method.computes}"),
        (
            "draws",
            "one estimate" if fit.is_point else f"{counted(sizes['chain'], 'chain')} of {sizes['draw']:,}",
        ),
        (
            "rows per task",
            f"a summary of {fit.data.stands_for:,} rows by {fit.data.n_rows:,}"
            if fit.data.stands_for
            else f"{counts.min():,} each"
            if counts.min() == counts.max()
            else f"{counts.min():,} to {counts.max():,}, median {np.median(counts):,.0f}",
        ),
        ("features", _some(fit.data.feature_names)),
        ("tasks", _some(fit.data.task_names)),
        (
            "scale",
            "standardized: numbers of the posterior are on that scale, predictions on that of your data",
        )
        if fit.data.transform is not None
        else ("scale", "that of your data"),
        ("fields", _settings(factory)),
    ]
    if fit.keep != "draws":
        facts.insert(3, ("kept", _KEPT[fit.keep]))
    if short := shortfall(fit.idata):
        facts.insert(3, ("stopped early", f"The fit was {short}."))
    return "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in facts) + "</dl>"


def _settings(factory: Any) -> str:
    """The fields that are not what they are by default."""
    plain = {field.name: getattr(type(factory)(), field.name) for field in fields(factory)}
    changed = [
        f"{k} = {getattr(factory, k)!r}" for k, v in plain.items() if repr(getattr(factory, k)) != repr(v)
    ]
    return "; ".join(changed) + ("; all others as by default" if changed else "all as by default")


def _some(names: Iterable[str], most: int = 12) -> str:
    shown = list(map(str, names))
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def _converged(fit: Fit, diagnostics: pd.DataFrame | None) -> str:
    verdict = verdict_of(fit)
    if verdict is None:
        badge = '<span class="verdict plain">does not apply</span>'
    elif verdict.converged:
        badge = '<span class="verdict good">yes</span>'
    else:
        badge = f'<span class="verdict bad">{"too few draws to tell" if verdict.too_few else "no"}</span>'
    text = f"<p>{badge}</p><p>{escape(verdict_text(fit))}</p>"
    if diagnostics is None or diagnostics.empty:
        return text
    limits = (
        f"R-hat compares the chains with each other, and should be at most {LARGEST_R_HAT}. ESS says how many "
        f"independent draws these are worth: {LEAST_ESS} per chain or more. The worst entries of "
        f"{len(diagnostics):,}:"
    )
    shown = diagnostics.head(_WORST_ROWS).round({"ess_bulk": 0, "ess_tail": 0})
    return f'{text}<p class="note">{escape(limits)}</p>{_table(shown, {"r_hat": 3, "ess_bulk": 0, "ess_tail": 0})}'


def _accuracy(accuracy: Accuracy | None, own: str) -> str:
    if accuracy is None:
        return (
            "<p>No held-out rows were given, so that nothing is said of accuracy. Give them as "
            "<code>fit.report(out, test=...)</code>, or <code>zoo report --test rows.csv</code>.</p>"
        )
    return f"<p>{escape(accuracy.sentence)}</p>{_table(accuracy.table, digits=2, own=own)}"


def _priors(priors: pd.DataFrame) -> str:
    mostly = list(priors.index[priors["width"] > MOSTLY])
    if mostly:
        them = "it is" if len(mostly) == 1 else "they are"
        said = (
            f"The data say little of {_some(mostly)}: {them} mostly what the prior says. More tasks, or a prior that "
            "you can defend, would tell."
        )
    else:
        said = "The data say more of every parameter of the population than its prior does."
    note = (
        "Medians and 90% intervals before and after the data. The width is that of the interval after the data in "
        f"widths of the one before, in logarithms of what is positive; above {MOSTLY:g} the data have said little."
    )
    first = priors.sort_values("width", ascending=False).head(_SUMMARY_ROWS)
    return f'<p>{escape(said)}</p><p class="note">{escape(note)}</p>{_table(first.map("{:.3g}".format))}'


def _picture(folder: Path, picture: Picture) -> str:
    data = base64.b64encode((folder / picture.file).read_bytes()).decode("ascii")
    return (
        f'<figure><h3>{escape(picture.heading)}</h3><img alt="{escape(picture.heading)}" '
        f'src="data:image/png;base64,{data}"><figcaption>{escape(picture.caption)}</figcaption></figure>'
    )


def _numbers(fit: Fit, summary: pd.DataFrame) -> str:
    shown = summary.head(_SUMMARY_ROWS).drop(columns="scale", errors="ignore")
    standard = ", on the scale of standardized data" if fit.data.transform is not None else ""
    note = f"{len(shown):,} of {counted(len(summary), 'row', ',')} of summary.csv{standard}."
    whole = {name: 0 for name in ("ess_bulk", "ess_tail") if name in shown}
    units = units_table(fit)
    first = ""
    if units is not None:
        said = f"What all tasks have in common{', in the units of the data' if standard else ''}."
        # Features in large or small units have large or small coefficients: four digits of each.
        first = f'<p class="note">{escape(said)}</p>{_table(units.map("{:.4g}".format))}'
    return f'{first}<p class="note">{escape(note)}</p>{_table(shown, whole)}'


def _load(fit: Fit, saved_as: str | os.PathLike[str] | None) -> str:
    path = "fit.nc" if saved_as is None else Path(saved_as).name
    save = "" if saved_as is not None else f"# Once, where the fit was made:\nfit.save({path!r})\n\n"
    code = (
        f"import zoo\n\n{save}fit = zoo.load({path!r})\n\n"
        "# Mean, sd, and interval of new rows:\nfit.predict(rows)\n\n# The posterior, as ArviZ reads it:\nfit.idata"
    )
    return f"<pre><code>{escape(code)}</code></pre>"


# -------------------------------------------------------------------- tables


def _table(
    frame: pd.DataFrame, digits_of: dict[str, int] | None = None, digits: int = 3, own: str | None = None
) -> str:
    """A table with its index, which scrolls where it is wider than the page."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in (frame.index.name or "", *frame.columns))
    rows = []
    for label, *values in frame.itertuples():
        cells = "".join(
            f"<td>{escape(_shown(value, (digits_of or {}).get(str(name), digits)))}</td>"
            for name, value in zip(frame.columns, values, strict=True)
        )
        mark = ' class="own"' if own is not None and label == own else ""
        rows.append(f"<tr{mark}><th>{escape(str(label))}</th>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _shown(value: Any, digits: int) -> str:
    if isinstance(value, float | np.floating) and np.isnan(value):
        return "–"
    return f"{value:,.0f}" if digits == 0 and np.isreal(value) else number(value, digits)
