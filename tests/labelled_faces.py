"""Drawn faces as files, in the official layout of CelebA."""

from pathlib import Path

from PIL import Image

from deepbc.datasets import faces


def write_celeba(home: Path, rows: int) -> None:
    """Writes so many faces of 32 x 32 pixels and the table of their labels; there is no partition."""
    (home / "img_align_celeba").mkdir(parents=True)
    values = faces.sample(rows, seed=0, size=32).values
    labels = faces.labels(values, seed=0)
    names = [f"{k:06d}.jpg" for k in range(1, rows + 1)]
    for name, image in zip(names, values["image"], strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(home / "img_align_celeba" / name, quality=95)
    lines = [" ".join([name, *(str(2 * int(labels[each][k]) - 1) for each in labels)]) for k, name in enumerate(names)]
    (home / "list_attr_celeba.txt").write_text("\n".join([str(rows), " ".join(labels), *lines]))
