"""A fit that may be killed: run it again and it goes on where it was. Under torchrun, processes share the rows.

python examples/long_fit.py
torchrun --nproc-per-node 2 examples/long_fit.py
"""

import os
import tempfile
from pathlib import Path

import deepbc as bc
from deepbc.recipes import morphomnist

folder = Path(os.environ.get("FIT_FOLDER", tempfile.mkdtemp()))
data = morphomnist.truth().sample(2000, seed=0).values

scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {"intensity": bc.Flow(bins=12, hidden=[16])})
training = bc.Training(epochs=20, patience=5)
report = scm.fit(data, seed=0, training=training, checkpoint=folder / "checkpoint")
print(report)

if os.environ.get("RANK", "0") == "0":
    scm.save(folder / "model")
