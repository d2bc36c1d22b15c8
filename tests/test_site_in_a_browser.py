"""The site as a browser shows it: formulas rendered, nothing wider than a phone, links that lead somewhere.

``python -m pytest -m scheduled tests/test_site_in_a_browser.py`` builds the site, which takes minutes, and needs
Chromium. Screenshots of what was looked at stay in pytest's folder of the test, and are printed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parent.parent
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
FORMULAS = (
    "kernel-machines",
    "max-margin",
    "populations",
    "varying-coefficients",
    "engines",
    "notation",
    "bibliography",
)
LOOKED_AT = ("index", "models", "scoreboard", "tables")

pytestmark = [
    pytest.mark.scheduled,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built pages."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", ROOT / "docs", out]
    subprocess.run([str(part) for part in command], check=True)
    return out


def _browse(page: Path, *options: str) -> str:
    command = [BROWSER, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*map(str, command), *options, page.as_uri()], capture_output=True, text=True, check=True, timeout=180
    )
    return done.stdout


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_rendered(site, name):
    seen = _browse(site / f"{name}.html", "--dump-dom")
    assert "mjx-container" in seen or name == "bibliography"
    assert "<mjx-merror" not in seen, re.findall(r"<mjx-merror.{0,300}", seen)[:2]
    text = re.sub(r"<(script|style|mjx-container|code|pre).*?</\1>", "", seen, flags=re.DOTALL)
    assert not re.search(r">[^<]*\$\\", text), "raw TeX is left on the page"


@pytest.mark.parametrize("name", LOOKED_AT)
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_screen(site, tmp_path, name, width):
    """A script of its own writes the width of the page into its title, which the browser then prints."""
    page = site / f"{name}.html"
    probe = page.with_name(f"{name}-{width}-probe.html")
    title = "document.title = 'wide ' + document.documentElement.scrollWidth"
    script = f"<script>addEventListener('load', () => {{{title}}})</script>"
    probe.write_text(
        page.read_text(encoding="utf-8").replace("</head>", f"{script}</head>"), encoding="utf-8"
    )
    # Chromium's windows are at least 500 wide: a frame is as narrow as a phone.
    frame = page.with_name("frame.html")
    frame.write_text(
        f"<body style='margin:0'><iframe id=f width={width} height=900 src={probe.name}></iframe><script>"
        "addEventListener('load', () => setTimeout(() => {document.title = f.contentDocument.title}, 3000))</script>"
    )
    seen = _browse(
        frame, "--dump-dom", "--allow-file-access-from-files", f"--window-size={max(width, 500)},900"
    )
    found = re.search(r"<title>wide (\d+)</title>", seen)
    assert found and int(found[1]) <= width
    picture = tmp_path / f"{name}-{width}.png"
    _browse(frame, f"--screenshot={picture}", f"--window-size={max(width, 500)},900")
    assert picture.stat().st_size > 5_000
    print(picture)


def test_links_within_the_site_lead_somewhere(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {
        path: {unquote(a) for a in re.findall(r'\bid="([^"]+)"', text)} for path, text in pages.items()
    }
    dead = []
    for path, text in pages.items():
        if "_modules" in path.parts or path.name.endswith("probe.html") or path.name == "frame.html":
            continue
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            place = (path.parent / unquote(target)).resolve() if target else path
            if not place.exists() or (anchor and place in anchors and unquote(anchor) not in anchors[place]):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []
