"""What may be wrong with what people hand in, and the words in which we say it.

A message has four parts: where it is, what was expected, what came, and what to do.
"""

__all__ = [
    "check_axes",
    "check_batches",
    "check_between",
    "check_both_labels",
    "check_bounds",
    "check_callable",
    "check_category",
    "check_causes",
    "check_choice",
    "check_classes",
    "check_classified",
    "check_continuous",
    "check_contradiction",
    "check_cost",
    "check_count",
    "check_enough",
    "check_finite",
    "check_fits",
    "check_forced",
    "check_graph",
    "check_image_shape",
    "check_images",
    "check_inside",
    "check_integer",
    "check_kept",
    "check_known",
    "check_labels",
    "check_law",
    "check_layers",
    "check_level_counts",
    "check_levels",
    "check_move",
    "check_names",
    "check_one_source",
    "check_order",
    "check_parents",
    "check_possible",
    "check_range",
    "check_rest",
    "check_rows",
    "check_same_shape",
    "check_seed",
    "check_shape",
    "check_some_whole",
    "check_sorted",
    "check_spread",
    "check_table",
    "check_type",
    "check_types",
    "check_unbounded",
    "check_units",
    "check_value_dim",
    "check_varies",
    "check_weights",
    "check_whole_numbers",
    "check_words",
    "fail_cycle",
    "fail_graph",
    "fail_level",
    "near",
    "pick",
]

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepbc.errors import DataError, FitError, GraphError, SettingError, UnknownNameError

Something = TypeVar("Something")

INTEGERS = (int, np.integer)
NUMBERS = (int, float, np.integer, np.floating)
# The channels that an image may have.
CHANNELS = (1, 3, 4)
# The least side of an image that can be halved four times.
SMALLEST = 16
# The shapes of images for which there are networks of the paper.
PAPER = ((28, 28), (3, 64, 64), (64, 64, 3), (3, 128, 128), (128, 128, 3))


def fail_graph(message: str) -> NoReturn:
    raise GraphError(message)


def fail_cycle(cycle: Iterable[str]) -> NoReturn:
    fail_graph(
        f"The graph has a cycle: {' -> '.join(cycle)}. Causes must come before effects; remove one of its edges."
    )


def near(name: str, known: Iterable[str]) -> str:
    """Words a hint at the known names that look like the given one, or says nothing."""
    names = difflib.get_close_matches(str(name), list(known), n=3)

    return f"Did you mean {' or '.join(map(repr, names))}?" if names else ""


def pick(name: str, known: Collection[str], where: str) -> str:
    """Returns the name if it is known."""
    if name not in known:
        hint = near(name, known) or f"Known are: {', '.join(map(repr, known))}."
        raise UnknownNameError(f"{where}: unknown name {name!r}. {hint}")

    return name


def check_names(given: Collection[str], expected: Collection[str], where: str, optional: Collection[str] = ()) -> None:
    """Every expected name is given, save the optional ones, and no other."""
    for name in given:
        check_known(name, expected, where)
    for name in expected:
        if name not in given and name not in optional:
            came = ", ".join(map(repr, given)) or "none"
            raise DataError(f"{where}: variable {name!r} is missing; got {came}. Add it.")


def check_known(name: str, expected: Collection[str], where: str) -> None:
    """The name is that of a variable."""
    if name not in expected:
        hint = near(name, expected) or f"The variables are: {', '.join(map(repr, expected))}."
        raise DataError(f"{where}: {name!r} is not a variable of the graph. {hint} Drop it or add it to the graph.")


def check_causes(parents: Mapping[str, Collection[str]], kept: Collection[str]) -> None:
    """Every cause of what is kept is kept."""
    for name, causes in parents.items():
        for cause in causes:
            if cause not in kept:
                raise GraphError(f"part: {cause!r} is a cause of {name!r} and left out. Name it too.")


def check_one_source(values: Collection[str], noise: Collection[str], expected: Iterable[str]) -> None:
    """Every variable is given by its value or by its noise, not by both and not by none."""
    for name in expected:
        if name in values and name in noise:
            raise DataError(f"Variable {name!r}: expected its value or its noise, got both. Leave out one.")
        if name not in values and name not in noise:
            raise DataError(f"Variable {name!r}: expected its value or its noise, got neither. Give one.")


def check_shape(came: tuple[int, ...], shape: tuple[int, ...], where: str) -> None:
    """The last axes are those of the variable."""
    if len(shape) > len(came) or came[len(came) - len(shape) :] != shape:
        expected = ", ".join(["*batch", *map(str, shape)])
        raise DataError(
            f"{where}: expected shape ({expected}), got {came}. Put the rows on the first axis and the components "
            f"of the variable on the last."
        )


def check_same_shape(came: tuple[int, ...], shape: tuple[int, ...], where: str) -> None:
    """A variable that is fitted again has the shape that its effects know."""
    if came != shape:
        raise DataError(f"{where}: expected values of shape {shape} as before, got {came}. Fit all variables anew.")


def check_batches(shapes: Mapping[str, tuple[int, ...]]) -> torch.Size:
    """All batch shapes broadcast to one of them, which is returned; (5, 1) beside (5,) is a mistake, not 25 rows."""
    # numpy's, because torch's own function loads its compiler.
    try:
        common = np.broadcast_shapes(*shapes.values())
    except ValueError:
        common = None

    if shapes and common not in shapes.values():
        came = ", ".join(f"{name!r} {tuple(shape)}" for name, shape in shapes.items())
        raise DataError(f"Expected one number of rows for all variables, got {came}. Give each as many rows, or one.")

    return torch.Size(common or ())


def check_finite(rows: Tensor, where: str) -> None:
    """No row has a NaN or an infinity; rows have shape `(*batch, dim)`."""
    if not rows.is_floating_point():
        return

    bad = ~torch.isfinite(rows).all(-1)
    if bad.any():
        value = rows[bad][0]
        what = "a missing value (NaN)" if value.isnan().any() else "an infinity"
        raise DataError(
            f"{where}: expected finite numbers, got {what} in {_rows(bad)}. Drop these rows or fill the gaps."
        )


def check_inside(rows: Tensor, lower: float, upper: float, where: str, *, attained: bool = False) -> None:
    """Every row lies inside the bounds, strictly unless they may be attained; rows have shape `(*batch, dim)`."""
    # Images may be many, and on disk: nothing of their size is made unless something is wrong.
    least, largest = (end.item() for end in rows.aminmax()) if rows.numel() else (math.inf, -math.inf)
    if (lower < least and largest < upper) or (attained and lower <= least and largest <= upper):
        return

    outside = ((rows < lower) | (rows > upper)).any(-1)
    if outside.any():
        raise DataError(
            f"{where}: expected values inside the bounds ({lower:g}, {upper:g}), got {rows[outside][0].tolist()} in "
            f"{_rows(outside)}. Widen the bounds or drop these rows."
        )

    touching = ((rows == lower) | (rows == upper)).any(-1)
    raise DataError(
        f"{where}: expected values strictly inside the bounds ({lower:g}, {upper:g}), got {_rows(touching)} on a "
        f"bound. A continuous law never attains its bound: move the bound a little outward, leave it open with "
        f"None, or drop these rows."
    )


def check_bounds(lower: float, upper: float, where: str) -> None:
    if not lower < upper:
        raise SettingError(f"{where}: expected bounds (lower, upper) with lower < upper, got ({lower:g}, {upper:g}).")


def check_spread(sd: Sequence[float], dim: int, where: str) -> None:
    if len(sd) not in (0, dim) or not all(0 < each < math.inf for each in sd):
        raise SettingError(f"{where}: expected {dim} positive standard deviations or none, got {tuple(sd)}.")


def check_varies(rows: Tensor, where: str) -> None:
    """No component is constant; rows have shape `(batch, dim)`."""
    low, high = rows.amin(0).double(), rows.amax(0).double()
    constant = high - low <= 1e-15 * torch.maximum(low.abs(), high.abs())
    if constant.any():
        component = int(constant.nonzero()[0])
        part = f" (component {component})" if rows.shape[-1] > 1 else ""
        raise DataError(
            f"{where}{part}: every row has the value {rows[0, component].item():g}. A constant has no noise to learn; "
            f"take the variable out of the graph."
        )


def check_levels(items: Sequence[object]) -> None:
    """The levels of a category are at least two, of one kind and each there once."""
    kinds = {bool if isinstance(item, bool) else str if isinstance(item, str) else float for item in items}
    if len(items) < 2 or len(kinds) > 1 or len(set(items)) < len(items):
        raise SettingError(
            f"levels: expected two or more different labels, all text or all numbers, got {tuple(items)!r}."
        )


def check_level_counts(labels: Sequence[object], counts: Sequence[int], most: int, where: str) -> None:
    """Every level of a category has rows to learn from, and there are not as many levels as an index has."""
    if len(labels) > most:
        raise DataError(
            f"{where}: expected at most {most} levels, got {len(labels)}, such as {labels[0]!r} and {labels[1]!r}. Is "
            f"it a name or an index? Take it out of the graph, or join levels; numbers are declared as real or integer."
        )
    for label, count in zip(labels, counts, strict=True):
        if count < 2:
            raise DataError(
                f"{where}: the level {label!r} has {'one row' if count else 'no row'}, from which nothing can be "
                f"learned. Drop the row or join the level with another."
            )


def fail_level(item: object, row: int | None, known: Sequence[object], where: str) -> NoReturn:
    """A label is missing or unknown."""
    place = "" if row is None else f" in row {row}"
    if item is None or item != item:
        raise DataError(f"{where}: expected a label, got a missing value{place}. Drop the row or fill the gap.")

    hint = near(str(item), map(str, known)) or f"Known are: {', '.join(map(repr, known))}."
    raise DataError(f"{where}: unknown level {item!r}{place}. {hint} Mend it, or fit again with rows that have it.")


def check_category(levels: Something | None, name: str) -> Something:
    """Returns the levels of a category."""
    if levels is None:
        raise SettingError(
            f"Variable {name!r}: Categorical is the law of a category, and it has numbers. Declare its type with "
            f"types={{{name!r}: 'category'}}."
        )

    return levels


def check_integer(whole: bool, name: str) -> None:
    if not whole:
        raise SettingError(
            f"Variable {name!r}: Integer is the law of whole numbers. Declare its type with "
            f"types={{{name!r}: 'integer'}}."
        )


def check_continuous(law: object, continuous: bool) -> None:
    if not continuous:
        raise SettingError(f"Integer law: expected a learned law of numbers such as Flow(), got {law!r}.")


def check_types(declared: object, known: Sequence[str], where: str) -> None:
    """A type is one of the known ones, or the ordered levels of a category."""
    listed = isinstance(declared, Sequence) and not isinstance(declared, str)
    if isinstance(declared, str) and declared in known:
        return
    if not listed:
        raise SettingError(
            f"{where}: expected {', '.join(map(repr, known))} or a list of ordered levels, lowest first, got "
            f"{declared!r}."
        )
    try:
        check_levels(declared)  # type: ignore[arg-type] # a sequence, as was seen
    except (SettingError, TypeError) as error:
        raise SettingError(f"{where}: {error}") from error


def check_words(words: bool, mechanism: object, where: str) -> None:
    if words:
        raise SettingError(
            f"{where}: its column holds labels, and {mechanism!r} is a law of numbers. Take Categorical(), or convert "
            f"the column to numbers."
        )


def check_unbounded(bounded: bool, where: str) -> None:
    if bounded:
        raise SettingError(f"{where}: a category has levels, not bounds. Take the bounds away.")


def check_whole_numbers(rows: Tensor, where: str) -> None:
    """Every finite entry is a whole number; rows have shape `(*batch, dim)`."""
    bad = (rows.isfinite() & (rows != rows.round())).any(-1)
    if bad.any():
        raise DataError(
            f"{where}: expected whole numbers, got {rows[bad][0, 0].item():g} in {_rows(bad)}. Round it, or declare "
            f"the variable as real."
        )


def check_rows(rows: int, needed: int, where: str) -> None:
    if rows < needed:
        raise FitError(f"{where}: a fit needs at least {needed} rows, got {rows}. Add rows or use a simpler mechanism.")


def check_enough(rows: int, needed: int, where: str) -> None:
    if rows < needed:
        raise DataError(f"{where}: expected at least {needed} rows, got {rows}. So few tell nothing; give more.")


def check_count(count: object, where: str, least: int = 0, most: float = math.inf) -> None:
    if not isinstance(count, INTEGERS) or isinstance(count, bool) or not least <= count <= most:
        limit = f" and at most {most}" if most < math.inf else ""
        raise SettingError(f"{where}: expected a whole number of at least {least}{limit}, got {count!r}.")


def check_choice(choice: object, known: Sequence[str], where: str) -> str:
    """Returns the choice if it is one of the known ones."""
    if not isinstance(choice, str) or choice not in known:
        raise SettingError(f"{where}: expected {' or '.join(map(repr, known))}, got {choice!r}.")

    return choice


def check_order(lower: Tensor, upper: Tensor, where: str) -> None:
    """No interval is empty; both ends have shape `(*batch, 1)`."""
    wrong = (lower > upper).any(-1)
    if wrong.any():
        raise DataError(
            f"{where}: expected a lower end that is not above the upper one, got ({lower[wrong][0].item():g}, "
            f"{upper[wrong][0].item():g}) in {_rows(wrong)}. Swap them."
        )


def check_some_whole(lower: Tensor, upper: Tensor, where: str) -> None:
    """There is a whole number in every interval; both ends have shape `(*batch, 1)`."""
    none = (lower.ceil() > upper.floor()).any(-1)
    if none.any():
        raise DataError(
            f"{where}: expected an interval that holds a whole number, got ({lower[none][0].item():g}, "
            f"{upper[none][0].item():g}) in {_rows(none)}. Widen it."
        )


def check_sorted(sorts: bool, kind: str, asked: object, where: str) -> None:
    """An interval is asked of a variable whose values have an order."""
    if not sorts:
        raise DataError(
            f"{where}: {asked!r} asks for an interval of a {kind}, which has no order. Ask for a value"
            f"{', or declare its ordered levels as its type' if kind == 'category' else ' of each component'}."
        )


def check_classes(pins: bool, names: Sequence[str], solver: object) -> None:
    """A solver or sampler that meets antecedents by a penalty has nothing but numbers upstream."""
    if names and not pins:
        raise SettingError(
            f"{solver!r}: meets antecedents by a penalty, through laws that are smooth, and {names[0]!r} is a category "
            f"or a whole number. Take the default instead."
        )


def check_forced(value: Tensor, interval: bool, name: str) -> Tensor:
    """Returns the value to which a variable is forced."""
    if interval:
        raise DataError(
            f"antecedent {name!r}: an intervention forces a value, got an interval. Give a value, or ask backtrack."
        )

    return value


def check_rest(cost: Tensor, around: Sequence[Tensor], where: str) -> None:
    """A distance is zero where nothing moves, `(rows,)`, and nowhere less."""
    if not bool((cost.abs() <= 1e-9).all()):
        raise SettingError(f"{where}: expected a cost of 0 where nothing moves, got {cost.flatten()[0].item():g}.")
    for each in around:
        if not bool((each >= -1e-12).all() & each.isfinite().all()):
            raise SettingError(
                f"{where}: expected finite costs of at least 0, got {each.min().item():g}. It must be least where "
                f"nothing moves."
            )


def check_grows(cost: Tensor, where: str) -> None:
    """Checks a cost far out, with shape `(rows,)`."""
    if (cost < 20.0).any():
        raise SettingError(
            f"{where}: expected a cost that grows without end, so that exp(-cost) is a density, got {cost.min():g} far "
            f"out. Samples need one; `backtrack` finds the most likely world without."
        )


def check_proper_weight(weight: float, name: str) -> None:
    if weight == 0:
        raise SettingError(
            f"distance: the weight of {name!r} is 0, so that its noise has no density to be drawn from. Give it a "
            f"small weight, or leave it out of the scope."
        )


def check_drawable(name: str, why: str, sampler: object) -> None:
    """Fails on an antecedent that its own noise cannot meet."""
    raise SettingError(
        f"antecedent {name!r}: {why}, so that samples would have to be drawn on a curved constraint, which {sampler!r} "
        f"does not do. Take `backtrack` for the most likely world, or sampler=Langevin() for samples near it."
    )


def check_seed(seed: object) -> int:
    """Returns the seed as a plain whole number."""
    if not isinstance(seed, INTEGERS) or isinstance(seed, bool):
        raise SettingError(f"seed: expected a whole number, got {seed!r}.")

    return int(seed)


def check_type(given: object, expected: type, where: str) -> None:
    if not isinstance(given, expected):
        made = f" Write {given.__name__}()." if isinstance(given, type) else ""
        raise SettingError(f"{where}: expected a {expected.__name__}, got {given!r}.{made}")


def check_derivable(where: str) -> None:
    """Laws can be derived; nothing can in torch's inference mode, where it would go unsaid."""
    if torch.is_inference_mode_enabled():
        raise SettingError(
            f"{where}: needs derivatives, which torch.inference_mode() forbids. Leave it, or write torch.no_grad()."
        )


def check_between(value: object, lower: float, upper: float, where: str, *, closed: bool = False) -> None:
    """The value lies strictly between the two, or on the lower end where that is closed."""
    inside = isinstance(value, NUMBERS) and (lower < value < upper or (closed and value == lower))
    if not inside:
        raise SettingError(f"{where}: expected a number between {lower:g} and {upper:g}, got {value!r}.")


def _rows(bad: Tensor) -> str:
    """Names the first of the bad rows, counted from 0, and how many there are; `bad` has shape `(*batch,)`."""
    count, total = int(bad.sum()), bad.numel()
    if bad.ndim == 0:
        return "the row"

    first = bad.nonzero()[0].tolist()
    name = first[0] if len(first) == 1 else tuple(first)

    return f"row {name}" if count == 1 else f"{count} of {total} rows, first row {name}"


def check_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the weights as plain numbers."""
    if not isinstance(weights, Mapping):
        raise SettingError(f"distance weights: expected a mapping such as {{'x': 2.0}}, got {weights!r}.")
    for name, weight in weights.items():
        if not isinstance(weight, NUMBERS) or not 0 <= weight < math.inf:
            raise SettingError(f"distance weight of {name!r}: expected a finite number of at least 0, got {weight!r}.")

    return {name: float(weight) for name, weight in weights.items()}


def check_cost(cost: object, noise: Tensor, where: str) -> None:
    """What a user's distance returned is one cost a row of the noise, which has shape `(*batch, noise)`."""
    if not isinstance(cost, Tensor) or cost.shape != noise.shape[:-1]:
        came = tuple(cost.shape) if isinstance(cost, Tensor) else type(cost).__name__
        raise SettingError(
            f"{where}: expected a tensor of shape {tuple(noise.shape[:-1])} for noise of shape {tuple(noise.shape)}, "
            f"got {came}. Sum over the last axis."
        )


def check_units(hidden: Iterable[int], where: str) -> tuple[int, ...]:
    """Returns the sizes of hidden layers."""
    if not isinstance(hidden, Iterable):
        raise SettingError(f"{where}: expected a list of layer sizes, got {hidden!r}. Write [{hidden!r}].")

    sizes = tuple(hidden)
    for units in sizes:
        check_count(units, where, least=1)

    return sizes


def check_layers(layers: Sequence[str], known: Sequence[str], where: str) -> None:
    if isinstance(layers, str) or not layers:
        raise SettingError(f"{where}: expected a list of layers such as ['affine', 'spline'], got {layers!r}.")
    for layer in layers:
        if layer not in known:
            raise SettingError(
                f"{where}: unknown layer {layer!r}. {near(layer, known) or 'Known are: ' + ', '.join(known) + '.'}"
            )


def check_move(
    device: torch.device | str | None, dtype: torch.dtype, bounds: Mapping[str, tuple[float, float]]
) -> None:
    """The device is there, and the precision can tell the bounds of every variable apart."""
    if isinstance(device, torch.dtype):
        raise SettingError(f"to: expected a device such as 'cuda', got {device}. Write to(dtype={device}).")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise SettingError(f"to: the device {device!r} cannot be used ({reason}). Choose another.") from error

    if dtype not in (torch.float32, torch.float64):
        raise SettingError(f"to: expected the dtype torch.float32 or torch.float64, got {dtype!r}.")
    for name, pair in bounds.items():
        low, high = torch.tensor(pair, dtype=dtype)
        if not torch.nextafter(low, high) < high or [low.isinf(), high.isinf()] != [math.isinf(each) for each in pair]:
            raise SettingError(
                f"to: expected a precision that tells the bounds {pair} of {name!r} apart, got {dtype}. Keep "
                f"torch.float64, or measure the variable in other units."
            )


def check_axes(where: str, what: str, given: Tensor, dim: int, parents: Tensor, parents_dim: int) -> torch.Size:
    """The last axes of noise or values and of the parents are the mechanism's; returns their common batch shape."""
    for name, tensor, expected in ((what, given, dim), ("parents", parents, parents_dim)):
        if tensor.ndim == 0 or tensor.shape[-1] != expected:
            raise DataError(
                f"{where}: expected {name} with shape (*batch, {expected}), got {tuple(tensor.shape)}. "
                f"The last axis holds the components, for example x.unsqueeze(-1)."
            )

    return check_batches({what: given.shape[:-1], "parents": parents.shape[:-1]})


def check_parents(name: str, parents: int) -> None:
    if not parents:
        raise SettingError(
            f"Variable {name!r}: a Predictor is a function of its parents, and it has none. Add an edge."
        )


def check_value_dim(name: str, came: int, value: int, kind: str) -> None:
    if came != value:
        raise SettingError(
            f"Variable {name!r}: its data has dimension {came}, its {kind} {value}. Set {kind}(..., value={came})."
        )


def check_callable(given: object, where: str) -> None:
    if not callable(given):
        raise SettingError(f"{where}: expected a function or a torch module, got {given!r}.")


def check_law(result: object, rows: int, dim: int, where: str) -> Tensor:
    """What a user's law returned is a tensor `(rows, dim)`, or `(rows,)` for a scalar."""
    if not isinstance(result, Tensor):
        raise DataError(
            f"{where}: expected a torch tensor, got {type(result).__name__}. Write the law with torch operations, so "
            f"that its derivatives are known."
        )
    if result.shape == (rows,) and dim == 1:
        return result.unsqueeze(-1)
    if result.shape != (rows, dim):
        raise DataError(
            f"{where}: expected shape ({rows}, {dim}), got {tuple(result.shape)}. The law acts row by row on "
            f"tensors of shape (batch, dim)."
        )

    return result


def check_graph(graph: object, expected: type) -> None:
    if not isinstance(graph, expected):
        raise GraphError(f"SCM: expected a CausalGraph, got {type(graph).__name__}. Write CausalGraph.parse('a -> b').")


def check_contradiction(given: Tensor, predicted: Tensor, where: str) -> None:
    """Values given for a deterministic variable are those that it predicts; both have shape `(*batch, dim)`."""
    wrong = ((given - predicted).abs() > 1e-6 * (1 + predicted.abs())).any(-1)
    if wrong.any():
        raise DataError(
            f"{where}: its value contradicts its Predictor in {_rows(wrong)}: got {given[wrong][0].tolist()}, the "
            f"Predictor gives {predicted[wrong][0].tolist()}. Leave the variable out: it follows from its parents."
        )


def check_table(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every column of a table has rows, and as many as the others."""
    for name, shape in shapes.items():
        if not shape:
            raise DataError(f"data, {name!r}: expected one entry a row, got a single number. Give a list of rows.")
        if 0 in shape[1:]:
            raise DataError(f"data, {name!r}: expected numbers in every row, got shape {shape}. Drop the variable.")

    lengths = {name: shape[0] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise DataError(f"data: expected columns of one length, got {came}. Every row needs every variable.")
    for name, length in lengths.items():
        check_rows(length, 2, f"Variable {name!r}")


def check_fits(fits: bool, came: object, expected: object) -> None:
    if not fits:
        raise SettingError(
            f"replace: expected a mechanism of the family {expected}, got one of {came}. Give an unfitted mechanism "
            f"and call fit(data, only=[...])."
        )


def check_possible(rows: Tensor, given: str, sought: str, where: str) -> None:
    """What a law yields is finite; rows have shape `(*batch, dim)`."""
    bad = ~torch.isfinite(rows).all(-1)
    if bad.any():
        raise DataError(
            f"{where}: its law yields no {sought} for the {given} of {_rows(bad)}: it is out of support. "
            f"Drop these rows or mend the law."
        )


def check_kept(rows: Tensor, lower: float, upper: float, where: str) -> None:
    """A given law kept the bounds that were declared for its variable; rows have shape `(*batch, dim)`."""
    outside = ((rows < lower) | (rows > upper)).any(-1)
    if outside.any():
        raise DataError(
            f"{where}: its law left the declared bounds ({lower:g}, {upper:g}) in {_rows(outside)}, with "
            f"{rows[outside][0].tolist()}. Mend the law or the bounds."
        )


def check_range(column: Tensor, lower: float, upper: float, where: str, *, whole: bool = False) -> None:
    """Every entry is a finite number from the lower end to the upper one."""
    inside = (column >= lower) & (column <= upper) & column.isfinite()
    bad = ~(inside & (column == column.floor())) if whole else ~inside
    if bad.any():
        kind = "whole numbers" if whole else "finite numbers"
        limits = f"from {lower:g} to {upper:g}" if upper < math.inf else f"of at least {lower:g}"
        raise DataError(
            f"{where}: expected {kind} {limits}, got {column[bad][0].item():g} in {_rows(bad)}. Mend or drop "
            f"these rows."
        )


def check_images(images: object, where: str, size: tuple[int, int] | None = None) -> NDArray[Any]:
    """Returns images as an array `(*batch, height, width)`: grey values from 0 to 255, and something drawn on each."""
    array = np.asarray(images)
    if array.dtype.kind not in "iuf" or array.ndim < 2 or 0 in array.shape[-2:] or size not in (None, array.shape[-2:]):
        expected = "height, width" if size is None else f"{size[0]}, {size[1]}"
        raise DataError(
            f"{where}: expected numbers of shape (*batch, {expected}), got {array.dtype} of shape {array.shape}. Put "
            f"the rows on the first axis."
        )

    low, high = (torch.from_numpy(np.asarray(each, np.float64)) for each in (array.min((-2, -1)), array.max((-2, -1))))
    for each in (low, high):
        check_range(each, 0, 255, where)
    blank = low == high
    if blank.any():
        raise DataError(f"{where}: expected a stroke on every image, got one grey value in {_rows(blank)}. Drop these.")

    return array


def check_labels(labels: Tensor, batch: tuple[int, ...]) -> None:
    """There is a class for each image of a list of images, which a byte can hold."""
    if len(batch) != 1 or labels.shape != batch:
        raise DataError(
            f"labels: expected shape (rows,) beside images of shape (rows, height, width), got {tuple(labels.shape)} "
            f"beside ({', '.join([*map(str, batch), 'height', 'width'])}). Give one label for each image."
        )
    check_range(labels, 0, 255, "labels", whole=True)


def check_both_labels(zeros: int, ones: int, fewest: int, where: str) -> None:
    if min(zeros, ones) < fewest:
        raise DataError(
            f"{where}: expected at least {fewest} rows of each label, got {zeros} of 0 and {ones} of 1. Give more "
            f"rows; an attribute that hardly varies cannot be learned."
        )


def check_classified(shape: tuple[int, ...], where: str) -> tuple[int, int, int]:
    """Returns the channels, height and width of an image that a classifier reads, which come in this order."""
    if len(shape) != 3 or shape[0] not in CHANNELS or min(shape[1:]) < SMALLEST:
        raise DataError(
            f"{where}: expected images of shape (channel, height, width) with 1, 3 or 4 channels and sides of at least "
            f"{SMALLEST} pixels, got {shape}. Give them the shape (rows, channel, height, width)."
        )

    return shape[0], shape[1], shape[2]


def check_image_shape(shape: tuple[int, ...], preset: str, where: str) -> tuple[int, int, int]:
    """Returns the channels, height and width of an image; channels come first, or last."""
    if preset == "paper" and shape not in PAPER:
        raise DataError(
            f"{where}: expected images of 28 x 28, or of 64 x 64 or 128 x 128 with 3 channels, for the paper's "
            f"networks, got {shape}. Take the default."
        )
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    if len(shape) == 3 and shape[0] in CHANNELS:
        return shape[0], shape[1], shape[2]
    if len(shape) == 3 and shape[2] in CHANNELS:
        return shape[2], shape[0], shape[1]

    raise DataError(
        f"{where}: expected images of shape (height, width), (channel, height, width) or (height, width, channel) with "
        f"1, 3 or 4 channels, got {shape}. Give the column the shape (rows, height, width)."
    )
