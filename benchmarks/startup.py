"""What it costs to start: `import deepbc` and first use of its core, over `import torch` alone.

Each program runs in a process of its own, the kinds in turn; the least of several runs counts.
"""

import subprocess
import sys
import time

RUNS = 7
PROGRAMS = {
    "import torch": "import torch",
    "import deepbc": "import deepbc",
    "first use of the core": """
import deepbc as bc
from deepbc.recipes import morphomnist
truth = morphomnist.truth()
data = truth.sample(100, seed=0).values
scm = bc.SCM(truth.graph, bounds={"intensity": (64, 255)})
scm.fit(data, training=bc.Training(epochs=1))
scm.log_prob(scm.sample(10, seed=0).values)
bc.intervene(scm, data, {"intensity": 200.0})
""",
    "deepbc --help": "import sys; sys.argv = ['deepbc', '--help']; from deepbc.cli import main; main()",
}


def seconds(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(RUNS):
        for name, program in PROGRAMS.items():
            best[name] = min(best[name], seconds(program))

    for name, each in best.items():
        print(f"{name:24s} {each:6.2f} s   {each / best['import torch']:5.2f} x import torch")


if __name__ == "__main__":
    main()
