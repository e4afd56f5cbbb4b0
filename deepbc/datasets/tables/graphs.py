"""The graphs of the six public tables: assumptions, by whom, and what they leave out.

- `adult`: after the graph of Nabi and Shpitser (2018) and Chiappa (2019): age and sex, then marriage, then schooling,
  then work, then income, each caused by all before it. Race stands beside sex. Left out are the country of birth,
  capital gains, and the relationship, which repeats sex and marriage.
- `compas`: ours. Age, sex and race come first, then prior offences, then the charge, then the score and, beside it,
  what came later. The score is made of answers to questions that the table lacks, so common causes are left out.
- `insurance`: ours, by common sense.
- `law_school`: after the graph of Kusner et al. (2017), in which race and sex cause grades and test score, with family
  income beside them; where they have a hidden knowledge behind all grades, here each grade causes the later ones.
- `mpg`: ours, an engineer's: year and origin, then the engine, then the weight, then what the car does.
- `titanic`: ours, by common sense: who you are, then the class you travel in, then the fare, and whether you survive.

References:
    Fair Inference on Outcomes (Nabi and Shpitser, 2018), https://arxiv.org/abs/1705.10378.
    Path-Specific Counterfactual Fairness (Chiappa, 2019), https://arxiv.org/abs/1802.08139.
    Counterfactual Fairness (Kusner et al., 2017), https://arxiv.org/abs/1703.06856, section 5.
"""

__all__ = ["GRAPHS"]

from collections.abc import Mapping

from deepbc.graph import CausalGraph

GRAPHS: Mapping[str, CausalGraph] = {
    name: CausalGraph.parse("; ".join(lines))
    for name, lines in {
        "adult": (
            "age, sex, race -> marital_status",
            "age, sex, race, marital_status -> education_num",
            "age, sex, race, marital_status, education_num -> workclass",
            "age, sex, race, marital_status, education_num, workclass -> occupation",
            "age, sex, race, marital_status, education_num, workclass, occupation -> hours_per_week",
            "age, sex, race, marital_status, education_num, workclass, occupation, hours_per_week -> income",
        ),
        "compas": (
            "age, sex, race -> priors_count",
            "age, sex, race, priors_count -> charge_degree",
            "age, sex, race, priors_count, charge_degree -> decile_score, recidivist",
        ),
        "insurance": (
            "age -> children",
            "age, sex -> smoker",
            "age, sex, region -> bmi",
            "age, sex, region, bmi, smoker, children -> charges",
        ),
        "law_school": (
            "race, sex -> fam_inc",
            "race, sex, fam_inc -> ugpa",
            "race, sex, fam_inc, ugpa -> lsat",
            "race, ugpa, lsat -> tier",
            "race, sex, ugpa, lsat, tier -> zfygpa",
            "race, lsat, tier, zfygpa -> pass_bar",
        ),
        "mpg": (
            "origin, model_year -> cylinders",
            "origin, model_year, cylinders -> displacement",
            "origin, model_year, displacement -> weight",
            "model_year, displacement -> horsepower",
            "weight, horsepower -> acceleration",
            "model_year, weight, horsepower -> mpg",
        ),
        "titanic": (
            "age, sex, embarked -> pclass",
            "age, sex -> sibsp, parch",
            "pclass, sibsp, parch, embarked -> fare",
            "age, sex, pclass, sibsp, parch -> survived",
        ),
    }.items()
}
