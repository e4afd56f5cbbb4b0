"""What people write on a command line: `amount=2000`, `30<=age<=40`, `job=clerk`, `job!=clerk`; weights and the like.

A name with signs in it stands between quotes, `"fare=$"=3`, or as it is where that can mean one thing only.
"""

__all__ = [
    "parse_bounds",
    "parse_conditions",
    "parse_constraints",
    "parse_scope",
    "parse_types",
    "parse_weights",
]

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from deepbc._validation import pick
from deepbc.data.categories import Levels
from deepbc.data.constraints import WORDS, Constraint
from deepbc.errors import SettingError
from deepbc.notation.names import QUOTED, QUOTES, quote, split_names, unquote
from deepbc.queries.antecedents import Interval, LabelSet

LOWER, SIGN = r"\s*(?:([^<>=]*?)\s*<=)?\s*", "(>=|<=|==|!=|=)"
ANY_VALUE, PLAIN_VALUE = r"(.*\S)", r"([^<>=]+?)"
CONDITION = re.compile(rf"{LOWER}([^<>=]+?)\s*{SIGN}\s*{PLAIN_VALUE}\s*")
IN_QUOTES = re.compile(rf"{LOWER}({QUOTED})\s*{SIGN}\s*{ANY_VALUE}\s*", re.DOTALL)
NAMED = re.compile(rf"\s*({QUOTED})\s*=")
# The word that lifts a constraint of the model; a label of that name is a label.
LIFTED = "free"


# What a condition asks for.
_Wanted = str | float | Interval | LabelSet


def parse_conditions(
    texts: Iterable[str], names: Sequence[str], labelled: Mapping[str, Levels] | None = None
) -> dict[str, _Wanted]:
    """Reads an antecedent, each condition on one variable; two ends of one variable may come apart.

    Args:
        texts: The conditions.
        names: The variables.
        labelled: The levels of those whose values are labels, of which several go with `|` between.

    Example:
        >>> levels = {"job": Levels(("clerk", "cook", "sailor"))}
        >>> parse_conditions(["amount=2000", "30 <= age <= 40", "job=clerk|cook"], ["age", "amount", "job"], levels)
        {'amount': 2000.0, 'age': between(30.0, 40.0), 'job': one_of('clerk', 'cook')}
    """
    asked: dict[str, _Wanted] = {}
    for text in texts:
        name, new = _condition(text, names, labelled or {})
        old = asked.get(name)
        asked[name] = new if old is None else _both(name, old, new)

    return asked


def _condition(text: str, names: Sequence[str], labelled: Mapping[str, Levels]) -> tuple[str, _Wanted]:
    where = f"condition {text!r}"
    name, first, sign, last = _parts(text, names, labelled, where)
    if sign == "!=" and name not in labelled:
        raise SettingError(f"{where}: != is for labels. Ask for {name!r} with >= or <=.")
    value = last if name in labelled else _number(last, where)
    if first is not None:
        if sign != "<=":
            raise SettingError(f"{where}: expected two ends as in '30<=age<=40'.")
        return name, Interval(first if name in labelled else _number(first, where), value)

    return name, _asked(sign, value, labelled.get(name))


def _parts(text: str, names: Sequence[str], labelled: Collection[str], where: str) -> tuple[str, str | None, str, str]:
    """The name, the lower end if there is one before it, the sign, and what comes behind it."""
    quoted = IN_QUOTES.fullmatch(text)
    if quoted and (unquote(quoted[2]) in names or quoted[2] not in names):
        name = pick(unquote(quoted[2]), names, where)
        return name, quoted[1], quoted[3], quoted[4]

    # A name that is known is read as it stands, whatever signs it holds; a label may hold any sign as well.
    readings = {name: _reading(name, text, name in labelled) for name in names if name in text}
    known = {name: found for name, found in readings.items() if found}
    if len(known) > 1:
        known = {name: found for name, found in known.items() if name in labelled or _is_number(found[1], found[3])}
    if len(known) > 1:
        choices = " or ".join(f"{quote(name, always=True)} {found[2]} ..." for name, found in known.items())
        raise SettingError(f"{where}: may be about {' or '.join(map(repr, known))}. Write {choices}.")
    for name, found in known.items():
        return name, found[1], found[2], found[3]

    return _unknown(text, names, where)


def _unknown(text: str, names: Sequence[str], where: str) -> tuple[str, str | None, str, str]:
    """Reads a condition that is about no name as it is written, or says what is wrong."""
    found = CONDITION.fullmatch(text)
    unknown = re.search(r"[<>](?!=)", text)
    if not found or unknown:
        quoted = """ A name with such signs stands in quotes: '"a>b"=30'.""" if set(text) & set(QUOTES) else ""
        hint = " For > and < write >= and <=." if unknown else ""
        raise SettingError(f"{where}: expected for example 'age=30', 'age>=30' or '30<=age<=40'.{hint}{quoted}")

    return pick(found[2], names, where), found[1], found[3], found[4]


def _is_number(*texts: str | None) -> bool:
    try:
        return not any(math.isnan(float(text)) for text in texts if text is not None)
    except ValueError:
        return False


def _reading(name: str, text: str, is_label: bool) -> re.Match[str] | None:
    """Reads a condition as one about a name, if it can be."""
    value = ANY_VALUE if is_label else PLAIN_VALUE

    return re.fullmatch(rf"{LOWER}{re.escape(name)}\s*{SIGN}\s*{value}\s*", text, re.DOTALL)


def _asked(sign: str, value: str | float, levels: Levels | None) -> _Wanted:
    if levels and sign in ("=", "==", "!="):
        labels = (
            [str(value)] if levels.label_of(value) is not None else [each.strip() for each in str(value).split("|")]
        )
        return LabelSet(tuple(labels), sign == "!=") if len(labels) > 1 or sign == "!=" else labels[0]
    if sign in ("=", "=="):
        return value

    return Interval(value, None) if sign == ">=" else Interval(None, value)


def _both(name: str, old: _Wanted, new: _Wanted) -> Interval | LabelSet:
    """Joins a lower and an upper end, or what is excluded."""
    if isinstance(old, LabelSet) and isinstance(new, LabelSet) and old.excluded and new.excluded:
        return LabelSet((*old.labels, *new.labels), excluded=True)
    if isinstance(old, Interval) and isinstance(new, Interval):
        for low, high in ((old, new), (new, old)):
            if low.upper is None and high.lower is None:
                return Interval(low.lower, high.upper)

    raise SettingError(f"conditions: {name!r} comes twice, as {old!r} and {new!r}. Leave one out.")


def parse_weights(texts: Iterable[str], names: Sequence[str]) -> dict[str, float]:
    """Reads weights such as `age=5`."""
    return {name: _number(value, f"weight of {name!r}") for name, value in _pairs(texts, names, "weight", "age=5")}


def parse_bounds(texts: Iterable[str], names: Sequence[str]) -> dict[str, tuple[float | None, float | None]]:
    """Reads bounds such as `age=0,120` or, open above, `amount=0,`."""
    bounds = {}
    for name, value in _pairs(texts, names, "bounds", "age=0,120"):
        lower, comma, upper = value.partition(",")
        if not comma:
            raise SettingError(f"bounds of {name!r}: expected two ends such as '0,120' or '0,', got {value!r}.")
        where = f"bounds of {name!r}"
        bounds[name] = tuple(_number(end, where) if end.strip() else None for end in (lower, upper))

    return bounds  # type: ignore[return-value] # two ends each


def parse_constraints(
    texts: Iterable[str], names: Sequence[str], labelled: Mapping[str, Levels]
) -> dict[str, Constraint | None]:
    """Reads constraints such as `sex=fixed`, `age=up`, `bmi=18,40`, `age=18,` or `job=clerk|cook`; `sex=free` lifts."""
    read: dict[str, Constraint | None] = {}
    for name, value in _pairs(texts, names, "constraint", "age=up"):
        word, where = value.strip(), f"constraint on {name!r}"
        if word in WORDS:
            read[name] = word
        elif word == LIFTED and not (name in labelled and LIFTED in labelled[name].items):
            read[name] = None
        elif name in labelled:
            read[name] = tuple(each.strip() for each in word.split("|"))
        elif word.count(",") == 1:
            read[name] = tuple(_number(end, where) if end.strip() else None for end in word.split(","))
        else:
            raise SettingError(
                f"{where}: expected 'fixed', 'up', 'down', 'free' or two ends such as '18,40', got {word!r}."
            )

    return read


def parse_types(texts: Iterable[str], names: Sequence[str]) -> dict[str, str | list[str]]:
    """Reads types such as `visits=integer` or, for ordered levels, `grade=low,mid,high`."""
    pairs = _pairs(texts, names, "type", "visits=integer")

    return {
        name: [each.strip() for each in value.split(",")] if "," in value else value.strip() for name, value in pairs
    }


def _pairs(texts: Iterable[str], names: Sequence[str], what: str, example: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, sign, value = _named(text, names)
        if not sign:
            raise SettingError(f"{what} {text!r}: expected a name and what goes with it, such as {example!r}.")
        name = pick(name, names, f"{what} {text!r}")
        if name in dict(pairs):
            raise SettingError(f"{what}: {name!r} comes twice. Leave one out.")
        pairs.append((name, value))

    return pairs


def _named(text: str, names: Sequence[str]) -> tuple[str, str, str]:
    """The name, the sign `=` if there is one, and what comes behind it."""
    quoted = NAMED.match(text)
    if quoted and (unquote(quoted[1]) in names or quoted[1] not in names):
        return unquote(quoted[1]), "=", text[quoted.end() :]
    # A name may hold the sign itself.
    known = [name for name in names if re.match(rf"\s*{re.escape(name)}\s*=", text)]
    held = max(known, key=len, default="")
    name, sign, value = text.lstrip().removeprefix(held).partition("=")

    return (held + name).strip(), sign, value


def parse_scope(text: str, names: Sequence[str], what: str = "scope") -> list[str]:
    """Reads names with commas between, of which one that holds a comma stands in quotes, or alone.

    Example:
        >>> parse_scope('"a,b", c', ["a,b", "c"])
        ['a,b', 'c']
    """
    listed = split_names(text)
    if text.strip() in names and not set(listed) <= set(names):
        return [text.strip()]

    return [pick(name, names, what) for name in listed]


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise SettingError(f"{where}: expected a number, got {text.strip()!r}.")

    return number
