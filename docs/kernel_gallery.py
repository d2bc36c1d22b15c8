"""Draw the pictures of docs/kernels.md from the code on that page: ``python docs/kernel_gallery.py``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from zoo.kernels import kernel_matrix

HERE = Path(__file__).resolve().parent
PAGE = HERE / "kernels.md"
TASKS, POINTS, SEED = 6, 81, 3


def code(page: str) -> str:
    """The page's code up to the section on models, which needs no drawing."""
    return "\n".join(
        re.findall(r"^```python\n(.*?)^```$", page.split("## In a model")[0], re.DOTALL | re.MULTILINE)
    )


def prior_draws(kernel: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A grid (POINTS,), and two draws of the functions there, (2, tasks, POINTS)."""
    grid = np.linspace(-1.0, 1.0, POINTS)
    X = np.column_stack([np.tile(grid, TASKS), np.repeat(np.arange(TASKS), POINTS)])
    values, vectors = np.linalg.eigh(kernel_matrix(kernel, X))
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    return grid, (root @ rng.standard_normal((len(X), 2))).T.reshape(2, TASKS, POINTS)


def draw(kernel: Any, path: Path) -> None:
    """The task matrix, and two draws from the prior."""
    figure, (left, *panels) = plt.subplots(
        1, 3, figsize=(9.0, 2.7), layout="constrained", width_ratios=(1.1, 1.4, 1.4)
    )
    B = kernel.task_covariance().to_numpy()
    largest = np.abs(B).max()
    image = left.imshow(B, cmap="RdBu_r", vmin=-largest, vmax=largest)
    left.set(xticks=range(TASKS), yticks=range(TASKS), xlabel="task", ylabel="task", title="task matrix")
    figure.colorbar(image, ax=left, shrink=0.85)
    grid, draws = prior_draws(kernel, np.random.default_rng(SEED))
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.92, TASKS))
    for number, (axes, functions) in enumerate(zip(panels, draws, strict=True), start=1):
        for task, function in enumerate(functions):
            axes.plot(grid, function, color=colours[task], lw=1.6, label=f"{task}")
        axes.set(xlabel="x", title=f"prior draw {number}")
        axes.margins(x=0.0)
    panels[0].set_ylabel("f(x, task)")
    panels[1].legend(title="task", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Draw every picture that the page shows."""
    page = PAGE.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(compile(code(page), str(PAGE), "exec", dont_inherit=True), namespace)
    for name in re.findall(r"\]\(kernels/(\w+)\.png\)", page):
        draw(namespace[name], HERE / "kernels" / f"{name}.png")
        print(f"docs/kernels/{name}.png")


if __name__ == "__main__":
    main()
