"""The public face: what can be seen is what is listed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deepbc


def test_every_listed_name_is_there():
    assert all(getattr(deepbc, name) is not None for name in deepbc.__all__)
    assert set(deepbc.__all__) <= set(dir(deepbc))


def test_listed_and_typed_names_agree():
    tree = ast.parse(Path(deepbc.__file__).read_text())
    typed = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(set(typed) - {"TYPE_CHECKING", "Any"}) == sorted(deepbc.__all__)


def test_contracts_are_public_and_need_no_test_runner():
    program = "import sys, deepbc.testing; print(*deepbc.testing.__all__, 'pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["check_distance", "check_mechanism", "check_sampler", "check_solver", "False"]


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'everything'"):
        deepbc.everything  # noqa: B018


def test_import_and_help_do_not_load_torch():
    program = "import sys, deepbc, deepbc.cli; print('torch' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_core_loads_neither_pandas_nor_the_compiler():
    program = (
        "import sys, deepbc as bc; from deepbc.recipes import morphomnist; scm = morphomnist.truth();"
        "w = scm.sample(50, seed=0); bc.intervene(scm, w.values, {'intensity': 200.0}); scm.log_prob(w.values);"
        "flow = bc.SCM(scm.graph); flow.fit(w.values, training=bc.Training(epochs=1)); flow.sample(3);"
        "print([name for name in ('pandas', 'torch._dynamo', 'sympy', 'matplotlib', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
