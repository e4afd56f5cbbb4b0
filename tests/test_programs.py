"""What a newcomer runs: the README, the docs, the examples, the command line."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from program import complaints

import deepbc as bc
from deepbc.cli import main
from deepbc.cli.demo import run_demo

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose shell blocks are run as well, in the order of the page.
SHELL_PAGES = [ROOT / "docs" / "tutorial.md"]
PROGRAM = Path(sys.executable).parent / "deepbc"


def blocks(page: Path) -> str:
    """The Python blocks of a page, which go on from each other."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S))


def deepbc(*words: str, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, **settings)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page not in SHELL_PAGES], ids=lambda page: page.name
)
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(page), str(page), "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", SHELL_PAGES, ids=lambda page: page.name)
def test_commands_and_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    parts = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    commands = [line for kind, text in parts if kind == "sh" for line in text.splitlines()]
    assert {shlex.split(line)[1] for line in commands} >= {"fit", "show", "check", "ask", "batch", "sample"}

    for kind, text in parts:
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)
            continue
        for line in text.splitlines():
            monkeypatch.setattr(sys, "argv", shlex.split(line))
            # In this process, which is quicker than a program that has torch to load.
            with pytest.raises(SystemExit) as left:
                main()
            assert left.value.code == 0, f"{line}: {capsys.readouterr().err}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda example: example.name)
def test_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIT_FOLDER", str(tmp_path))
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def texts_of(drawing: Path) -> list[ET.Element]:
    """The text elements of an SVG."""
    return list(ET.parse(drawing).getroot().iter("{http://www.w3.org/2000/svg}text"))


def words_of(drawing: Path) -> list[tuple[str, float, float]]:
    """The words of an SVG and their places."""
    return [(each.text, float(each.get("x")), float(each.get("y"))) for each in texts_of(drawing)]


def drawer(name: str) -> dict:
    """What a program that draws figures of the pages defines."""
    figures = ROOT / "docs" / "figures"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(figures)
        return runpy.run_path(str(figures / f"{name}.py"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    drawer("make")["make"](folder)
    return folder


@pytest.mark.parametrize("name", ["twins", "explanations", "answers"])
def test_figures_of_the_pages_are_what_their_program_draws(drawn, name):
    made, kept = drawn / f"{name}.svg", ROOT / "docs" / "figures" / f"{name}.svg"
    assert len(words_of(kept)) > 5
    colours = [set(re.findall("#[0-9a-f]{6}", each.read_text())) for each in (made, kept)]
    assert colours[0] == colours[1]
    # Other versions of matplotlib set words a little apart.
    for (word, *place), (old_word, *old_place) in zip(words_of(made), words_of(kept), strict=True):
        assert word == old_word
        assert place == pytest.approx(old_place, abs=4)


@pytest.mark.slow
def test_picture_of_the_readme_is_what_its_program_draws(tmp_path):
    drawer("idea")["draw"](run_demo(tmp_path / "demo", rows=500), tmp_path)
    pictures = [folder / "idea.svg" for folder in (tmp_path, ROOT / "docs" / "figures")]
    # A fit of fewer rows gives other numbers.
    made, kept = ([re.sub(r"[\d.]+", "number", each.text or "") for each in texts_of(path)] for path in pictures)
    assert len(kept) > 20
    assert made == kept


def test_links_of_the_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_help_lists_the_commands():
    for words in ([], ["--help"]):
        done = deepbc(*words)
        assert "demo" in done.stdout
        assert "causal model" in done.stdout


def test_version_is_printed():
    assert deepbc("--version").stdout.strip() == f"deepbc {bc.__version__}"
    module = subprocess.run([sys.executable, "-m", "deepbc", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout.strip() == f"deepbc {bc.__version__}"


def test_demo_prints_tables_and_writes_its_files(tmp_path):
    alone = {**os.environ, "COLUMNS": "140", "OMP_NUM_THREADS": "1"}
    done = deepbc("demo", "--rows", "500", "--out", str(tmp_path / "made"), env=alone)
    assert done.returncode == 0, done.stderr
    assert "Had the intensity been 220" in done.stdout
    # Five digits, and two lines of errors for each kind of answer.
    for word, times in {"factual": 5, "interventional": 7, "backtracking": 7, "converged": 10}.items():
        assert done.stdout.count(word) == times, word
    assert complaints(done.stderr) == []
    assert (tmp_path / "made" / "figure.png").stat().st_size > 10_000
    page = (tmp_path / "made" / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert page.count("<td>backtracking</td>") == 6
    assert "http" not in page
    scm = bc.SCM.load(tmp_path / "made" / "model")
    assert scm.sample(2, seed=0).values["image"].shape == (2, 28, 28)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["demo", "--rows", "3"], "--rows"),
        (["demo", "--intensity", "300"], "--intensity"),
        (["demo", "--colour", "red"], "--colour"),
        (["dmeo"], "dmeo"),
    ],
)
def test_bad_words_are_said_in_short_and_exit_with_2(words, part):
    done = deepbc(*words)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_own_errors_are_one_line_and_exit_with_2(tmp_path):
    (tmp_path / "made" / "model").mkdir(parents=True)
    (tmp_path / "made" / "model" / "thesis.tex").write_text("x")
    done = deepbc("demo", "--rows", "100", "--out", str(tmp_path / "made"), env={**os.environ, "COLUMNS": "300"})
    assert done.returncode == 2
    assert done.stderr.startswith("deepbc: ")
    assert len(done.stderr.strip().splitlines()) == 1
