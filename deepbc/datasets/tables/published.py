"""Six public tables that people try first: downloaded once, each from one commit of a public repository.

No table is part of this package. The files are looked for in `DEEPBC_DATA/tables`, then in the folder `tables` of the
cache, and are else downloaded into it; their SHA-256 sums are fixed. Rows with gaps are left out, columns that repeat
another or name a single row are too, truth values are truth values, and levels that have an order are ordered
categories. `GRAPHS` has the graph that goes with each.

- `adult`: 30,162 people of the census of the USA in 1994, UCI repository (Becker and Kohavi, 1996), its adult.data.
  Licence: CC BY 4.0.
- `compas`: 6,172 defendants of Broward County, gathered by ProPublica (Larson et al., 2016) from public records. No
  licence is stated.
- `insurance`: 1,338 insured people, simulated from census figures for *Machine Learning with R* (Lantz, 2013). In the
  public domain, as the repository says.
- `law_school`: 20,798 students of the bar passage study of the LSAC (Wightman, 1998), as cleaned by Le Quy et al.
  (2022). No licence is stated.
- `mpg`: 392 cars, StatLib and UCI repository (Quinlan, 1993), as in seaborn-data. Licence: CC BY 4.0.
- `titanic`: 712 passengers of the Titanic, as in seaborn-data. No licence is stated.

Where no licence is stated, what you may do with the table is between you and who published it.

References:
    UCI Adult, https://doi.org/10.24432/C5XW20; UCI Auto MPG, https://doi.org/10.24432/C5859H.
    How We Analyzed the COMPAS Recidivism Algorithm (Larson et al., 2016), ProPublica.
    A survey on datasets for fairness-aware machine learning (Le Quy et al., 2022).
"""

__all__ = ["SOURCES", "adult", "compas", "insurance", "law_school", "mpg", "titanic"]

import io
from typing import Any

from deepbc.data.frames import DataFrame
from deepbc.datasets.download import Source, fetch, read_bytes

HOST = "https://raw.githubusercontent.com/"
SOURCES = {
    name: Source("tables", f"{HOST}{place}/", {file: checksum})
    for name, file, place, checksum in (
        (
            "adult",
            "adult-train.csv",
            "jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        (
            "compas",
            "compas-scores-two-years.csv",
            "propublica/compas-analysis/bafff5da3f2e45eca6c2d5055faad269defd135a",
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        ),
        (
            "insurance",
            "insurance.csv",
            "stedy/Machine-Learning-with-R-datasets/ff933238d9c30da179b7e3ad4b6ca938d67efc53",
            "505c1cbc2e63d0363bac59501563df2530aadf4cdb9cfee226f4ef32f5468281",
        ),
        (
            "law_school",
            "law_school_clean.csv",
            "tailequy/fairness_dataset/abb5a18b822ba56a221c5311082e192e85000b95/experiments/data",
            "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
        ),
        (
            "mpg",
            "mpg.csv",
            "mwaskom/seaborn-data/71e2436a092d714350de0fc409ca8a8714e7e78f",
            "c14b8b855ea7ee86cb9736bf8caaf281c4685ca08826f3eb2acaccaaf40f0d5a",
        ),
        (
            "titanic",
            "titanic.csv",
            "mwaskom/seaborn-data/71e2436a092d714350de0fc409ca8a8714e7e78f",
            "81787d320d7f7b03df935e91de8bd19e11d45c5bbcab86ef4d4a76dc91b7d4f2",
        ),
    )
}
# The columns of the census in their order; the file has no line of names.
CENSUS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
# Days between arrest and screening within which ProPublica takes the score to be for that arrest.
NEAR = 30


def adult() -> DataFrame:
    """Reads 30,162 people of the census of 1994: age, schooling, family, work, and `income`, `<=50K` or `>50K`."""
    table = _read("adult", header=None, names=CENSUS, skipinitialspace=True, na_values="?")

    return _complete(table)


def compas() -> DataFrame:
    """Reads 6,172 defendants: age, sex, race, what they were charged with, and the decile of their risk score.

    The rows are those that ProPublica analysed: screened within 30 days of the arrest, and followed for two years.
    """
    table = _read("compas")
    kept = table["days_b_screening_arrest"].abs().le(NEAR) & table["is_recid"].ne(-1) & table["c_charge_degree"].ne("O")
    names = {"c_charge_degree": "charge_degree", "two_year_recid": "recidivist"}
    counts = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    table = table[kept][["age", "sex", "race", *counts, *names, "decile_score"]].rename(columns=names)

    return _typed(_complete(table), truths=["recidivist"], ordered=["decile_score"])


def insurance() -> DataFrame:
    """Reads 1,338 insured people: age, sex, body mass index, children, whether they smoke, region, yearly charges."""
    return _complete(_read("insurance"))


def law_school() -> DataFrame:
    """Reads 20,798 law students: grades before, test score, tier of the school, grades there, and the bar exam.

    `ugpa` is the grade point average of college, `lsat` the admission test, `zfygpa` and `zgpa` the standardised grades
    of the first year and of all, `tier` the prestige of the school, `fam_inc` a fifth of family incomes.
    """
    table = _read("law_school").rename(columns={"fulltime": "part_time"})
    table["part_time"] -= 1
    table.insert(0, "sex", table.pop("male").map({1.0: "male", 0.0: "female"}))

    return _typed(_complete(table), truths=["part_time", "pass_bar"], ordered=["fam_inc", "tier"])


def mpg() -> DataFrame:
    """Reads 392 cars of 1970 to 1982: origin, engine, weight, seconds to 60 miles an hour, and miles per gallon."""
    return _typed(_complete(_read("mpg").drop(columns="name")), truths=[], ordered=["cylinders"])


def titanic() -> DataFrame:
    """Reads 712 passengers whose age is known: class, sex, age, company, fare, port, and whether they survived.

    `sibsp` counts siblings and spouses on board, `parch` parents and children.
    """
    names = ["pclass", "sex", "age", "sibsp", "parch", "fare", "embark_town", "survived"]
    table = _complete(_read("titanic")[names].rename(columns={"embark_town": "embarked"}))
    # The first class is the highest.
    table["pclass"] = (-table["pclass"]).astype("category").cat.as_ordered()
    table["pclass"] = table["pclass"].cat.rename_categories(["third", "second", "first"])

    return _typed(table, truths=["survived"], ordered=[])


def _read(name: str, **options: Any) -> DataFrame:
    import pandas

    source = SOURCES[name]
    (path,) = fetch(source, list(source.checksums)).values()
    table: DataFrame = pandas.read_csv(io.BytesIO(read_bytes(path)), **options)

    return table


def _complete(table: DataFrame) -> DataFrame:
    return table.dropna().reset_index(drop=True)


def _typed(table: DataFrame, *, truths: list[str], ordered: list[str]) -> DataFrame:
    """Makes truth values of zeros and ones, and ordered categories of whole numbers."""
    for name in truths:
        table[name] = table[name].astype(bool)
    for name in ordered:
        table[name] = table[name].astype(int).astype("category").cat.as_ordered()

    return table
