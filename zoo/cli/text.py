"""Docstrings and lists of models as text for a terminal of 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from inspect import cleandoc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["model_list", "plain_text", "wrapped"]

_WIDTH = 79
_SYMBOLS = {
    **{
        name: chr(code)
        for names, first in (
            ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi", 0x3B1),
        )
        for code, name in enumerate(names.split(), first)
    },
    **{"pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω"},
    **{
        "Lambda": "Λ",
        "Sigma": "Σ",
        "Phi": "Φ",
        "Psi": "Ψ",
        "Omega": "Ω",
        "Theta": "Θ",
        "Delta": "Δ",
        "Gamma": "Γ",
    },
    **{"sim": "~", "propto": "∝", "cdot": "·", "times": "×", "otimes": "⊗", "top": "'", "in": "∈", "pm": "±"},
    **{
        "le": "≤",
        "leq": "≤",
        "ge": "≥",
        "geq": "≥",
        "ne": "≠",
        "neq": "≠",
        "to": "→",
        "infty": "∞",
        "ell": "l",
    },
    **{
        "sum": "Σ",
        "prod": "Π",
        "int": "∫",
        "mid": "|",
        "ldots": "...",
        "dots": "...",
        "quad": "  ",
        "qquad": "    ",
    },
    **{
        "odot": "⊙",
        "circ": "∘",
        "approx": "≈",
        "partial": "∂",
        "star": "*",
        "ast": "*",
        "lVert": "‖",
        "rVert": "‖",
    },
}
_ROLE = re.compile(r":(?:py:)?[a-z]+:`~?([^`]+)`")
_STYLED = re.compile(
    r"\\(?:mathrm|mathcal|mathbf|mathbb|text|operatorname|hat|tilde|bar|boldsymbol)\{([^{}]*)\}"
)


# -------------------------------------------------------------------- docstrings


def plain_text(docstring: str) -> str:
    """A docstring without the marks of its markup, wrapped."""
    # In place of the line under a heading stands an empty one.
    lines = ["" if line and set(line) == {"-"} else line for line in cleandoc(docstring).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_blocks(lines)))


def _blocks(lines: list[str]) -> Iterable[str]:
    """Paragraphs wrapped, formulas on lines of their own; headings and blank lines as they are."""
    formula, paragraph, depth = False, list[str](), 0
    for line in [*lines, ""]:
        indent = len(line) - len(line.lstrip())
        begins_item = line.lstrip().startswith("- ")
        if paragraph and (not line.strip() or begins_item or (not formula and indent != depth)):
            text = " ".join(paragraph)
            yield wrapped(_formula(text) if formula else _unmarked(text), depth)
            paragraph = []
        if line.strip().startswith(".. math::"):
            formula = True
            line = line.replace(".. math::", "")
            if line.strip():
                paragraph, depth = [line.strip()], 4
            continue
        if formula and not paragraph and line.strip() and indent == 0:
            formula = False
        if not line.strip():
            yield ""
        elif begins_item or not paragraph:
            paragraph, depth = [line.strip()], indent + 2 * begins_item
        else:
            paragraph.append(line.strip())


def wrapped(text: str, indent: int = 0) -> str:
    """A paragraph of at most 79 columns; the first line of an item hangs out by its dash."""
    item = text.startswith("- ")
    first = " " * (indent - 2 * item)
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def _unmarked(text: str) -> str:
    """Inline markup as plain text: roles, formulas, code."""

    def role(found: re.Match[str]) -> str:
        return _formula(found[1]) if ":math:" in found[0] else found[1]

    return _ROLE.sub(role, text).replace("``", "").replace("**", "")


def _formula(text: str) -> str:
    """LaTeX as one can type it: Greek letters, fractions with a slash."""
    text = text.replace("&", "").replace("\\\\", "").replace("\\!", "")
    text = re.sub(r"\\[,;: ]", " ", text)
    text = re.sub(r"\\[td]?frac(\d)(\d)", r"\1/\2", text)
    text = re.sub(r"\\[td]?frac\{(\\?\w+)\}\{(\w)\}", r"\1/\2", text)
    for _ in range(4):  # from the inside out
        text = _STYLED.sub(r"\1", text)
        text = re.sub(r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"√(\1)", text)
        text = re.sub(r"([_^])\{(\w)\}", r"\1\2", text)
        text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
    text = text.replace("\\{", "{").replace("\\}", "}").replace("\\|", "‖").replace("\\_", "_")
    text = re.sub(r"\\(?:left|right|big|Big|bigl|bigr)(?![a-zA-Z])", "", text)
    text = re.sub(r"\\([a-zA-Z]+)", lambda found: _SYMBOLS.get(found[1], found[1]), text)
    return re.sub(r"\^'|\^\('\)", "'", text)


# -------------------------------------------------------------------- lists


def model_list(models: pd.DataFrame) -> str:
    """The models, one after another: name, paper, what it is, and every method."""
    parts = []
    for name, row in models.iterrows():
        lines = [f"{name} ({row['paper']})", wrapped(_unmarked(str(row["description"])), 2)]
        lines.append(wrapped(f"methods: {row['methods']}", 2))
        if row["other_methods"]:
            lines.append(wrapped(f"with other likelihoods: {row['other_methods']}", 2))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
