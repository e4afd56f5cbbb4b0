"""Is the wheel whole? Run outside the tree, by a Python into which the wheel was installed: smoke.py TREE."""

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

import deepbc as bc

tree, home = Path(sys.argv[1]).resolve(), Path(bc.__file__).resolve().parent
program = Path(sys.executable).parent / "deepbc"

# The wheel is what was imported, and it has what it should have.
assert home.is_relative_to(Path(sys.prefix).resolve()), f"imported from {home}, not from the wheel"
assert not Path.cwd().resolve().is_relative_to(tree), "run it outside the tree"
assert version("deepbc") == bc.__version__
assert (files("deepbc") / "py.typed").is_file()
written = {path.relative_to(tree / "deepbc") for path in (tree / "deepbc").rglob("*.py")}
shipped = {path.relative_to(home) for path in home.rglob("*.py")}
assert shipped == written, f"not the files of the tree: {sorted(map(str, shipped ^ written))}"

# A fit of a few rows and a question, in Python and by the program.
draw = np.random.default_rng(0)
a = draw.normal(size=60)
table = pd.DataFrame({"a": a, "b": 2 * a + draw.normal(size=60)})
scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": bc.Linear()})
scm.fit(table, seed=0)
assert bc.backtrack(scm, table.iloc[0], {"b": 3.0}).status == "converged"

table.to_csv("table.csv", index=False)
scm.save("model")
for words in (["--help"], ["ask", "model", "table.csv", "--row", "0", "--if", "b=3"]):
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)
print(f"deepbc {bc.__version__} from its wheel: {len(shipped)} files, a fit, two questions")
