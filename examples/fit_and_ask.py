"""A table and a graph: fit, look at the fit, ask about rows, save."""

import tempfile
from pathlib import Path

import deepbc as bc
from deepbc.recipes import morphomnist

# Any data frame will do; these rows come from known equations, so that the answers can be checked.
data = morphomnist.truth().sample(1000, seed=0).to_frame()

scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), bounds={"intensity": (64, 255)})
report = scm.fit(data, seed=0)
print(report.to_frame()[["variable", "nll", "epochs", "notes"]].to_string(index=False))

# Thicker by force: intensity follows its law, with the noise that each row had.
cf = bc.intervene(scm, data.head(3), {"thickness": 3.5})
print(cf.to_frame()[["factual thickness", "thickness", "factual intensity", "intensity", "status"]].to_string())

# An intensity that no law can give is said to be so, and spoils no other row.
cf = bc.intervene(scm, data.head(3), {"intensity": [200.0, 300.0, 210.0]})
for status in cf.status:
    print(status.explain())

with tempfile.TemporaryDirectory() as folder:
    scm.save(Path(folder) / "model")
    again = bc.SCM.load(Path(folder) / "model")
    print(again, float((again.log_prob(data) - scm.log_prob(data)).abs().max()))
