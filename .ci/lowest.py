"""Prints pip constraints of the lowest versions that pyproject.toml admits, beside the pinned tools."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Of torch one version is tested, that of constraints.txt.
PINNED = {"torch"}


def lowest() -> dict[str, str]:
    """The lower bound of each dependency that has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    bounds = (re.match(r"([\w.-]+)>=([\w.]+)", line) for line in lines)

    return {bound[1]: bound[2] for bound in bounds if bound and bound[1] not in PINNED}


def constraints() -> Iterator[str]:
    """The lines of the file."""
    bounds = lowest()
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if "==" in line and line.split("==")[0] not in bounds:
            yield line
    for name, version in bounds.items():
        yield f"{name}=={version}"


if __name__ == "__main__":
    print("\n".join(constraints()))
