"""Reports of one page: what is in them, and what is not."""

import base64
from html.parser import HTMLParser

import pytest

import deepbc as bc
from deepbc.cli.report_page import paragraph, picture, table, write_page


class Reader(HTMLParser):
    """Notes the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text, self.open = [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_page_holds_its_parts_and_asks_no_network(tmp_path):
    (tmp_path / "a.png").write_bytes(b"not really a picture")
    parts = [
        paragraph("a < b & c", "Heading"),
        table(["x", "y"], [["<script>alert(1)</script>", "2"]]),
        picture(tmp_path / "a.png", 'a "caption"'),
    ]
    write_page(tmp_path / "page.html", "Title <1>", parts)
    page = (tmp_path / "page.html").read_text()

    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert "a < b & c" in reader.text
    assert "<script>alert(1)</script>" in reader.text
    assert "script" not in {tag for tag, _ in reader.tags}
    source = next(attributes for tag, attributes in reader.tags if tag == "img")["src"]
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == b"not really a picture"
    assert "http" not in page


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(bc.StorageError, match=r"page\.html"):
        write_page(tmp_path / "none" / "page.html", "", [])
