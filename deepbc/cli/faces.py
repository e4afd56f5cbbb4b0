"""The command for a folder of labelled faces."""

__all__ = ["fit_celeba"]

import contextlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from deepbc.cli.console import add_row, console, say
from deepbc.cli.models import Json, fit_records, report_table

if TYPE_CHECKING:
    from deepbc.recipes.classifiers import Classifiers

GRAPHS = ("paper", "wrong", "full")


def fit_celeba(
    folder: Annotated[Path, typer.Argument(help="The folder of CelebA, or of a set laid out like it.")],
    out: Annotated[Path, typer.Option(help="The folder; model and classifiers get one each in it.")],
    size: Annotated[int, typer.Option(min=16, max=512, help="The side of the images in pixels.")] = 64,
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many faces to learn from; the whole training part where not given.")
    ] = None,
    graph: Annotated[
        str, typer.Option(help="The paper's graph, its wrong one, or a full one: paper, wrong, full.")
    ] = "paper",
    preset: Annotated[str, typer.Option(help="Our mechanisms, or the paper's: default, paper.")] = "default",
    epochs: Annotated[int | None, typer.Option(min=1, help="The most passes over the rows, for each network.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same data, same model.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder in which a killed fit is kept, to go on; one in --out if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a causal model of faces: whether they are old, male, bearded and bald, and what they look like.

    Classifiers read the four attributes from the images; their standardised logits are the values of the attributes.
    A flow learns the law of each, and an autoencoder that of the image. The folder holds list_attr_celeba.txt and
    img_align_celeba/*.jpg as they are published, or pictures of any size beside a table.
    A killed run that is started again goes on where it was. The state it needs for that is removed at the end, unless
    --checkpoint names another place.
    Questions about images are asked in Python: deepbc.SCM.load reads the model, and Classifiers.load of
    deepbc.recipes.classifiers the classifiers.

    Example: deepbc fit-celeba celeba --rows 10000 --out faces
    """
    from deepbc._validation import check_choice, check_image_shape
    from deepbc.datasets import celeba
    from deepbc.recipes import faces
    from deepbc.recipes.classifiers import KIND as CLASSIFIERS
    from deepbc.recipes.classifiers import check_labels
    from deepbc.scm.model import KIND as MODEL
    from deepbc.storage import check_place

    graphs = dict(zip(GRAPHS, (faces.GRAPH, faces.WRONG, faces.FULL), strict=True))
    chosen = graphs[check_choice(graph, GRAPHS, "--graph")]
    check_choice(preset, faces.PRESETS, "--preset")
    check_place(out / "model", MODEL)
    check_place(out / "classifiers", CLASSIFIERS)
    # Said before all pictures are decoded rather than after.
    check_image_shape((3, size, size), preset, "--size")
    check_labels(celeba.read_labels(folder, rows=rows))

    data = celeba.load(folder, size=size, rows=rows)
    state = checkpoint or out / "checkpoint"
    made = faces.fit(data.images, data.labels, chosen, preset=preset, epochs=epochs, seed=seed, checkpoint=state)
    made.classifiers.save(out / "classifiers")
    made.scm.save(out / "model")
    if checkpoint is None:
        for part in ("classifiers", "model"):
            shutil.rmtree(state / part, ignore_errors=True)
        with contextlib.suppress(OSError):
            state.rmdir()  # if nothing else is in it

    if as_json:
        accuracy = {name: asdict(each) for name, each in made.classifiers.accuracy.items()}
        sys.stdout.write(json.dumps({"classifiers": accuracy, "report": fit_records(made.report)}, indent=2) + "\n")
        return
    console.print(_accuracies(made.classifiers))
    console.print(report_table(made.report))
    say(f"model:       {out / 'model'}\nclassifiers: {out / 'classifiers'}")


def _accuracies(classifiers: "Classifiers") -> Table:
    columns = ("attribute", "rows", "labelled 1", "accuracy", "balanced", "log-loss (nats)", "calibration", "seconds")
    table = Table(*columns, title="Classifiers, on rows that they did not see")
    for name, each in classifiers.accuracy.items():
        shares = (f"{share:.1%}" for share in (each.share, each.accuracy, each.balanced))
        errors = (f"{each.log_loss:.4f}", f"{each.calibration:.4f}")
        add_row(table, name, f"{each.rows:,}", *shares, *errors, f"{each.seconds:.1f}")

    return table
