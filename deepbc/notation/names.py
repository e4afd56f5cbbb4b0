r"""Names as people write them: bare, or between quotes where a sign in them would mean something else.

A quoted name stands between two `"` or two `'`. In it `\n`, `\r` and `\t` are a line break, a return and a tab, and a
backslash before any other sign stands for that sign.

Example:
    >>> quote("age"), quote("tip->driver")
    ('age', '"tip->driver"')
    >>> split_names(''' "a,b", c ''')
    ['a,b', 'c']
"""

__all__ = ["QUOTED", "QUOTES", "quote", "split_names", "unquote"]

import re

QUOTES = "\"'"
# Possessive, so that a quote that is not closed is found in linear time.
QUOTED = r'"(?:[^"\\\n]|\\[^\n])*+"' + "|" + r"'(?:[^'\\\n]|\\[^\n])*+'"
BARE = re.compile(r"\w(?:[\w ./%+:()-]*[\w%)])?")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
PART = re.compile(rf"\s*(?:(?P<quoted>{QUOTED})\s*(?=,|\Z)|(?P<bare>[^,]*))(?:,|\Z)")


def quote(name: str, *, always: bool = False) -> str:
    """Writes a name, between quotes where it needs them, or always."""
    if not always and BARE.fullmatch(name) and "--" not in name:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    for letter, sign in ESCAPES.items():
        escaped = escaped.replace(sign, f"\\{letter}")

    return f'"{escaped}"'


def unquote(quoted: str) -> str:
    """Reads what stands between the quotes of a quoted name."""
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), quoted[1:-1], flags=re.DOTALL)


def split_names(text: str) -> list[str]:
    """Reads names with commas between, each bare or quoted; a bare one keeps no spaces at its ends."""
    names, at = list[str](), 0
    while found := PART.match(text, at):
        names.append(unquote(found["quoted"]) if found["quoted"] else found["bare"].strip())
        at = found.end()
        if not found[0].endswith(","):
            return names

    return names
