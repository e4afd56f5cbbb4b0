r"""What the site does to pages before they are rendered.

Formulas become MathML, examples become pages, and the results open with a gallery of their figures. Docstrings have
``:math:`x` `` and ``.. math::``, guides have ``$x$`` and ``$$``. Browsers draw MathML by themselves, so no page loads a
script for it. A command that the converter does not know is an error, not a word on the page.
"""

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.extensions.toc import slugify
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EXAMPLES = Path(__file__).parent.parent / "examples"
# The heading of a result: its name and its title.
RESULT = re.compile(r"^## ([\w-]+): (.*)$", flags=re.MULTILINE)


def mathml(formula: str, *, display: bool = False) -> str:
    """Writes a formula as MathML."""
    formula = " ".join(formula.split())
    if display and "&" in formula:
        formula = rf"\begin{{split}} {formula} \end{{split}}"
    made = convert(formula, display="block" if display else "inline")
    if "\\" in made or "<mi>&</mi>" in made:
        raise ValueError(f"the formula {formula!r} has a command that latex2mathml does not know")

    return made


class InlineMath(InlineProcessor):
    """A formula within a line."""

    def handleMatch(self, match: re.Match[str], _: str) -> tuple[str, int, int]:  # type: ignore[override] # noqa: N802
        return self.md.htmlStash.store(mathml(match["formula"])), match.start(), match.end()


class DisplayMath(BlockProcessor):
    """A formula on lines of its own."""

    OPENING = re.compile(r"\.\. math::|\$\$")

    def test(self, _: ET.Element, block: str) -> bool:
        return self.OPENING.match(block.lstrip()) is not None

    def run(self, parent: ET.Element, blocks: list[str]) -> None:
        formula = self.OPENING.sub("", blocks.pop(0))
        if not formula.strip():
            formula = blocks.pop(0)
        ET.SubElement(parent, "p").text = self.parser.md.htmlStash.store(mathml(formula, display=True))


class Doctests(Preprocessor):
    """Sessions of a docstring become blocks of code."""

    def run(self, lines: list[str]) -> list[str]:
        made, fence = [], ""
        for line in lines:
            indent = line[: len(line) - len(line.lstrip())]
            if fence and not line.strip():
                made.append(fence)
                fence = ""
            elif not fence and line.lstrip().startswith(">>> "):
                fence = f"{indent}```"
                made.append(f"{fence}pycon")
            made.append(line)

        return [*made, fence]


class Docstrings(Extension):
    """Reads what our docstrings have beyond Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(Doctests(md), "doctests", 27)
        md.parser.blockprocessors.register(DisplayMath(md.parser), "display math", 95)
        # Before backticks and backslashes, which have priorities of 190 and 180.
        md.inlinePatterns.register(InlineMath(r":math:`(?P<formula>[^`]+)`", md), "math role", 200)
        md.inlinePatterns.register(InlineMath(r"\$(?P<formula>[^$\s][^$]*)\$", md), "dollar math", 185)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Docstrings())  # type: ignore[arg-type] # mkdocs expects names, Markdown takes both

    return config


def example(path: Path) -> str:
    """The page of an example: its docstring, then its code."""
    module = ast.parse(path.read_text())
    said = ast.get_docstring(module) or ""
    code = path.read_text().splitlines()[module.body[0].end_lineno if said else 0 :]
    title = path.stem.replace("_", " ").capitalize()
    code = "\n".join(code).strip()

    return f"# {title}\n\n{said}\n\n```python title='examples/{path.name}'\n{code}\n```\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(EXAMPLES.glob("*.py")):
        files.append(File.generated(config, f"examples/{path.stem}.md", content=example(path)))

    return files


def gallery(markdown: str) -> str:
    """The figures of the results, small, each a link to its section."""
    tiles = "".join(
        f'<a href="#{slugify(f"{name}: {title}", "-")}"><img src="{name}/figure.png" alt="{name}" loading="lazy">'
        f"<span>{title}</span></a>\n"
        for name, title in RESULT.findall(markdown)
    )

    return RESULT.sub(f'<div class="gallery">\n{tiles}</div>\n\n\\g<0>', markdown, count=1)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri == "results/results.md":
        return gallery(markdown)

    return re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)
