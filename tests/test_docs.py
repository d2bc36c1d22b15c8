"""The documentation: its code runs, and the architecture page says what the code is."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import invwishart, matrix_normal

import zoo
from tests.statistical.mutants import MUTANTS

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "index.md",
    "own-factory.md",
    "own-likelihood.md",
    "convergence.md",
    "long-runs.md",
    "large-data.md",
    "distributions.md",
    "kernel-machines.md",
    "varying-coefficients.md",
    "grades.md",
    "choices.md",
    "ops.md",
    "augmented-step.md",
    "gaussian-processes.md",
    "tables.md",
    "mixed-models.md",
    "priors.md",
    "pymc.md",
    "sharing.md",
    "scikit-learn.md",
)
# Their models are compiled for minutes.
COMPILED = {
    "own-factory.md",
    "own-likelihood.md",
    "distributions.md",
    "ops.md",
    "augmented-step.md",
    "gaussian-processes.md",
    "tables.md",
    "priors.md",
}
PACKAGE = ROOT / "zoo"


def _blocks(page: str) -> list[str]:
    """The Python blocks of a page, with few draws."""
    return [re.sub(r"\b(draws|tune)=\d+", r"\1=20", block) for block in _whole_blocks(f"docs/{page}")]


def _whole_blocks(page: str) -> list[str]:
    """The Python blocks of a page as they are."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _run(block: str, where: str, namespace: dict) -> None:
    # Without dont_inherit the block would be compiled under this module's __future__ imports.
    exec(compile(block, where, "exec", dont_inherit=True), namespace)


# ---------------------------------------------------------------- code on the pages


@pytest.mark.filterwarnings("default")  # ArviZ warns of so few draws
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.statistical] * (page in COMPILED)) for page in PAGES]
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    blocks = _blocks(page)
    assert blocks
    for number, block in enumerate(blocks):
        _run(block, f"{page}, block {number + 1}", namespace)
    plt.close("all")
    if page == "own-factory.md":
        _check_own_factory(namespace)


@pytest.mark.filterwarnings("error")
def test_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    """With all of its draws: it converges, and warns of nothing."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in _whole_blocks("README.md"):
        _run(block, "README.md", namespace)
    plt.close("all")
    assert "not converged" not in capsys.readouterr().out
    errors = zoo.diagnostics.compare(
        {name: namespace[name] for name in ("fit", "alone")}, namespace["test"], random_seed=1
    )["RMSE"]
    assert errors["fit"] < errors["alone"]


def test_readme_is_short_and_leads_to_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 120
    assert max(len(line) for line in lines if not line.startswith("|")) <= 100
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / target).exists(), target
    assert "&& .venv/bin/python -m pytest -n 2" in text


def _prose(text: str) -> list[tuple[int, str]]:
    """Lines that can be wrapped: no code, formulas, tables, headings, comments, or definitions of links."""
    found, closing = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if closing:
            closing = "" if closing in words else closing
        elif opening := re.match(r"`{3,}|~{3,}|:{3,}|\$\$|<!--", words):
            closing = {"<!--": "-->"}.get(opening[0], opening[0])
            closing = "" if closing in words[len(opening[0]) :] else closing
        elif not re.match(r" {4}|\||#|\[[^\]]+\]: ", line):
            found.append((number, line))
    return found


def test_prose_is_wrapped():
    pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "reproduction").glob("*.md"))]
    pages += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    assert len(pages) > 30
    long = {
        f"{path.name}:{number}": len(line)
        for path in pages
        for number, line in _prose(path.read_text(encoding="utf-8"))
        if len(line) > 100 and " " in line.strip()
    }
    assert long == {}


def _check_own_factory(namespace):
    """The quick part of the test case that the page inherits; the fits are made on the page."""
    case = namespace["TestPartialPooling"]()
    case.test_spec_round_trip()
    case.test_description_is_frozen()
    case.test_build_names_everything()
    case.test_requirements()
    case.test_simulate_returns_truth()
    case.test_subclass_extends_coords()
    with pytest.raises(ValueError, match="spread"):
        namespace["PartialPooling"](spread=-1.0)
    # A new task's coefficients come from the population, and what all tasks share is passed on.
    posterior = namespace["curved"].posterior
    draws = namespace["curved"].factory.new_task(posterior, ["one", "two"], np.random.default_rng(1))
    assert draws["coefficients"].shape == (*posterior["mean"].shape, 2)
    assert set(draws) == {"coefficients", "noise", "curvature"}


@pytest.mark.statistical
@pytest.mark.filterwarnings("default")
def test_own_factory_keeps_the_contract(tmp_path):
    namespace = {"__name__": "__main__"}
    for block in _blocks("own-factory.md"):
        if block.startswith(("from dataclasses", "from zoo.testing")):
            _run(block, "own-factory.md", namespace)
    case = namespace["TestPartialPooling"]
    for name in [name for name in dir(case) if name.startswith("test_")]:
        arguments = (tmp_path,) if name == "test_save_and_load" else ()
        getattr(case(), name)(*arguments)


# ---------------------------------------------------------------- the derivation


def test_densities_of_the_max_margin_page():
    """The conditionals and moves of docs/max-margin.md against the joint density alone."""
    T, D, t, d = 4, 3, 2, 1
    nu_task, nu_feature = T + 1.7, D + 2.3
    rng = np.random.default_rng(0)
    H = rng.normal(size=(T, D))
    R = invwishart.rvs(nu_task + 3, np.eye(T), random_state=1)
    omega = invwishart.rvs(nu_feature + 3, np.eye(D), random_state=2)
    P, O = np.linalg.inv(R), np.linalg.inv(omega)
    Psi = invwishart.rvs(T + 5, np.eye(T), random_state=5) + 0.3 * np.eye(T)
    roots = rng.normal(size=(T, D, 2))
    S, r = roots @ roots.swapaxes(1, 2), rng.normal(size=(T, D))
    residual = r - np.einsum("tij,tj->ti", S, H)

    def joint(H, R, omega):
        likelihood = -0.5 * np.einsum("ti,tij,tj", H, S, H) + np.sum(r * H)
        prior = matrix_normal.logpdf(H, rowcov=R, colcov=omega)
        covariances = invwishart.logpdf(R, nu_task, Psi) + invwishart.logpdf(omega, nu_feature, np.eye(D))
        return likelihood + prior + covariances

    def quadratic(precision, linear, x):
        return -0.5 * x @ precision @ x + linear @ x

    def agree(pairs):
        left, right = np.array(pairs).T
        np.testing.assert_allclose(left - left[0], right - right[0], rtol=1e-9, atol=1e-9)

    # Coefficients of one task.
    others = P[t] @ H - P[t, t] * H[t]
    pairs = []
    for h in rng.normal(size=(5, D)):
        moved = H.copy()
        moved[t] = h
        pairs.append((joint(moved, R, omega), quadratic(S[t] + P[t, t] * O, r[t] - O @ others, h)))
    agree(pairs)

    # Covariances.
    tasks = invwishart.rvs(nu_task + 3, np.eye(T), size=4, random_state=3)
    agree([(joint(H, C, omega), invwishart.logpdf(C, nu_task + D, Psi + H @ O @ H.T)) for C in tasks])
    features = invwishart.rvs(nu_feature + 3, np.eye(D), size=4, random_state=4)
    agree([(joint(H, R, C), invwishart.logpdf(C, nu_feature + T, np.eye(D) + H.T @ P @ H)) for C in features])

    # Shears.
    rest = np.delete(np.arange(T), t)
    G = H[rest].T
    pairs = []
    for c in rng.normal(size=(5, T - 1)):
        E = np.eye(T)
        E[t, rest] = c
        precision = P[t, t] * Psi[np.ix_(rest, rest)] + G.T @ S[t] @ G
        density = quadratic(precision, (Psi @ P)[rest, t] + G.T @ residual[t], c)
        pairs.append((joint(E @ H, E @ R @ E.T, omega), density))
    agree(pairs)
    rest = np.delete(np.arange(D), d)
    g = H[:, rest]
    pairs = []
    for c in rng.normal(size=(5, D - 1)):
        F = np.eye(D)
        F[d, rest] = c
        precision = O[d, d] * np.eye(D - 1) + (g * S[:, [d], d]).T @ g
        density = quadratic(precision, O[rest, d] + g.T @ residual[:, d], c)
        pairs.append((joint(H @ F.T, R, F @ omega @ F.T), density))
    agree(pairs)

    # Scales, with the Jacobians of both parts, and the swap.
    by_task, by_feature, swap = [], [], []
    q_task, l_task = H[t] @ S[t] @ H[t], r[t] @ H[t]
    q_feature = np.sum(S[:, d, d] * H[:, d] ** 2)
    l_feature = q_feature + np.sum(H[:, d] * residual[:, d])
    for s in (0.0, -1.0, 0.3, 0.8):
        down, up, c = np.exp(-2 * s), np.exp(2 * s), np.exp(s)
        E, F = np.eye(T), np.eye(D)
        E[t, t] = F[d, d] = c
        own = Psi[t, t] * P[t, t]
        cross = Psi[t] @ P[t] - own
        density = -nu_task * s - 0.5 * own * down - cross / c - 0.5 * q_task * up + l_task * c
        by_task.append((joint(E @ H, E @ R @ E.T, omega) + (D + T + 1) * s, density))
        density = -nu_feature * s - 0.5 * O[d, d] * down - 0.5 * q_feature * up + l_feature * c
        by_feature.append((joint(H @ F.T, R, F @ omega @ F.T) + (T + D + 1) * s, density))
        jacobian = (D * (D + 1) - T * (T + 1)) / 2 * s
        density = (T * nu_task - D * nu_feature) / 2 * s - np.trace(O) / (2 * c) - c * np.sum(Psi * P) / 2
        swap.append((joint(H, R / c, c * omega) + jacobian, density))
    for pairs in (by_task, by_feature, swap):
        agree(pairs)


# ---------------------------------------------------------------- formulas


def _formulas() -> list[tuple[str, str]]:
    """Each displayed formula of the pages and of the docstrings, with its file."""
    found = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        found += [
            (path.name, body)
            for body in re.findall(r"^\$\$\n(.*?)^\$\$", path.read_text("utf-8"), re.DOTALL | re.M)
        ]
    for path in sorted(PACKAGE.rglob("*.py")):
        directive = r"^( *)\.\. math::((?:[^\n]*\n)(?:\1 +[^\n]*\n|\n)*)"
        found += [(path.name, body) for _, body in re.findall(directive, path.read_text("utf-8"), re.M)]
    return found


def test_numbered_formulas_are_of_one_line():
    r"""Sphinx wraps a formula with ``\\`` or a blank line into split or aligned, where MathJax refuses a \tag."""
    formulas = _formulas()
    assert len(formulas) > 100
    for name, body in formulas:
        if r"\tag" in body:
            assert r"\\" not in body and "\n\n" not in body.strip(), f"{name}: {body}"


# ---------------------------------------------------------------- the page of verification


def test_verification_lists_every_planted_mistake():
    text = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    table = re.search(r"^\| mutant \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    listed = re.findall(r"^\| (\w+) \|", table[1], re.MULTILINE)
    assert sorted(listed) == sorted(mutant.name for mutant in MUTANTS)


def test_planted_mistakes_change_what_stands_in_the_code():
    """The text that a mistake replaces stands once in its file: else nothing is planted."""
    times = {m.name: (ROOT / m.file).read_text(encoding="utf-8").count(m.old) for m in MUTANTS}
    assert {name: n for name, n in times.items() if n != 1} == {}


# ---------------------------------------------------------------- the architecture page


def _modules() -> list[str]:
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def test_architecture_names_every_module():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(zoo(?:\.\w+)*)`", text))
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    modules = set(_modules())
    assert modules - packages - documented == set()
    assert {name for name in documented if not re.search(r"\.[A-Z]", name)} - modules - {
        "zoo.load",
        "zoo.select",
    } == set()


def test_architecture_names_every_dependency():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table = set(re.findall(r"^\|.*?`([a-z][\w.-]*)` \| [^|]+\|$", text, re.MULTILINE))
    extras = project["project"]["optional-dependencies"].values()
    listed = [*project["project"]["dependencies"], *(item for extra in extras for item in extra)]
    names = {re.split(r"[\[<>=!~; ]", item)[0] for item in listed}
    assert names - table == set()
    build = {re.split(r"[\[<>=!~; ]", item)[0] for item in project["build-system"]["requires"]}
    assert all(f"`{name}`" in text for name in build)


# The rooms of docs/architecture.md, in order: a module imports from its own room or from one before it.
_ROOMS = (
    *(
        "_version",
        "support",
        "data",
        "kernels",
        "inference",
        "ops",
        "distributions",
        "likelihoods",
        "latent",
        "gp",
    ),
    *("datasets", "core", "models", "registry", "testing", "diagnostics", "plots", "selection_arguments"),
    *("selection", "steps", "sklearn", "report", "demo", "experiments", "cli", "__main__"),
)
_AT = {room: i for i, room in enumerate(_ROOMS)}


def _package_imports() -> dict[str, set[str]]:
    """The modules that each module imports: at the top, inside of functions, and for type checkers alike."""
    modules = set(_modules())
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name in packages and name != "zoo" and path.name == "__init__.py":
            continue  # it names what is public, and is no part of a circle
        targets = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.level == 0, f"{path} imports relatively"
                named = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                targets |= {full if full in modules else node.module for full in named.values()}
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        found[name] = {target for target in targets if target in modules} - {name}
    del found["zoo"]  # it names every public module, each imported at first use
    return found


def test_imports_go_one_way():
    for name, targets in _package_imports().items():
        room = name.split(".")[1]
        assert room in _AT, f"{room} has no place: say in docs/architecture.md and here where it belongs"
        for target in targets - {"zoo"}:
            other = target.split(".")[1]
            assert _AT[other] <= _AT[room], f"{name} imports {target}"
            if room == "inference":
                assert other == "inference", f"{name} imports {target}: engines know no model"
        # The package as users see it is only for what stands above the models.
        assert "zoo" not in targets or _AT[room] > _AT["registry"], f"{name} imports zoo"


def test_there_is_no_circle_among_modules():
    graph = _package_imports()
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise AssertionError(
                f"modules import each other: {' -> '.join((*above[above.index(name) :], name))}"
            )
        if name not in done:
            for target in sorted(graph.get(name, ())):
                visit(target, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def _attribute_docstrings() -> list[tuple[str, str]]:
    """Docstrings of properties, and strings behind an assignment in a module or class, each with its place."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for body in (getattr(node, "body", None) for node in ast.walk(ast.parse(path.read_text("utf-8")))):
            nodes = body if isinstance(body, list) else []
            for node, after in zip(nodes, [*nodes[1:], None], strict=False):
                text = None
                if isinstance(node, ast.FunctionDef) and any(
                    "property" in ast.dump(decorator) for decorator in node.decorator_list
                ):
                    text = ast.get_docstring(node)
                elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                    text = getattr(after.value, "value", None)
                if isinstance(text, str):
                    found.append((f"{path.name}:{node.lineno}", text))
    return found


def test_attributes_are_described_without_a_colon():
    """Sphinx takes what stands before a colon in the first line for a type, as ``(n, P) int`` is one."""
    docstrings = _attribute_docstrings()
    assert len(docstrings) > 300
    for where, text in docstrings:
        line = re.sub(r":[\w:]+:`[^`]+`|``.+?``", "", text.splitlines()[0])
        assert ":" not in line or line.startswith("("), f"{where}: {line}"


def _lines(folder: str) -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / folder).rglob("*.py")
    }


def test_modules_stay_small():
    assert {name: n for name, n in _lines("zoo").items() if n > 400} == {}
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_test_files_stay_small():
    lines = _lines("tests")
    assert len(lines) > 100
    assert {name: n for name, n in lines.items() if n > 600} == {}


def test_test_files_that_are_named_exist():
    """In the documentation, in settings, and in the planted mistakes."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = {
        name
        for path in (*pages, ROOT / "pyproject.toml", ROOT / ".ci" / "run")
        for name in re.findall(r"tests/[\w/]+\.py", path.read_text(encoding="utf-8"))
    }
    verification = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    named |= {f"tests/{name}" for name in re.findall(r"`((?!tests/)\w+/test_\w+\.py)`", verification)}
    named |= {test.split("::")[0] for mutant in MUTANTS for test in mutant.tests}
    assert len(named) > 50
    assert {name for name in named if not (ROOT / name).is_file()} == set()
