"""Runs the installed program, each command in a process of its own.

A process that has loaded torch once forks for every command and runs the program's own file there, so that a command
takes a fraction of a second: arguments, output, exit code and files are those of the program.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "deepbc"
SERVER = """
import json, os, runpy, sys, traceback
import deepbc.batches.run, deepbc.batches.spec, deepbc.plots, matplotlib.figure, pandas, pydantic, rich.table, typer

def run(words, files):
    for number, file in enumerate([os.devnull, *files]):
        os.dup2(os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(asked["folder"])
        code = run(asked["words"], asked["files"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def start_program(folder):
    """Starts the process that forks; yields a function that runs the program with words, in a folder."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": settings}

    def run(*words):
        files = [folder / "out", folder / "err"]
        asked = {"words": [str(PROGRAM), *map(str, words)], "files": list(map(str, files)), "folder": str(folder)}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        return subprocess.CompletedProcess(words, code, *(file.read_text() for file in files))

    with subprocess.Popen([sys.executable, "-c", SERVER], **pipes) as process:
        yield run
        process.stdin.close()


def complaints(stderr):
    """The lines of standard error that are not how far a long fit is: a slow machine may have some of those."""
    return [line for line in stderr.splitlines() if not line.startswith("fit: ")]
