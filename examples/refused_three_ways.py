"""A refused loan, explained in three ways: what the score rests on, what to change, what would have been different.

A bank scores a loan by job, income, amount and duration. One applicant is refused. SHAP says which inputs the score
rests on, DiCE which inputs to change for a yes, deepbc what would have been different upstream, had it been a yes.
SHAP and DiCE know no graph; deepbc needs one: age -> job, both -> income -> amount -> duration.

SHAP and DiCE are asked where both are installed (`pip install shap dice-ml`); elsewhere the answers of shap 0.51.0 and
dice-ml 0.12 that are recorded below are shown. docs/explaining_classifiers.md reads the output line by line.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd

import deepbc as bc

JOBS = ["temporary", "permanent", "self-employed"]
INPUTS = ["job", "income", "amount", "duration"]
GRAPH = "age -> job; age, job -> income -> amount; income, amount -> duration"
# What SHAP says of the applicant, and what DiCE would change, by method, as `ask_shap` and `ask_dice` were answered.
SHAP_SAID = {"job": -0.609129, "income": -0.414723, "amount": 0.271829, "duration": -1.217889}
DICE_SAID = {
    "random": [
        {"income": 3.3728898},
        {"amount": 5.1696093, "duration": 15.49409},
        {"duration": 13.80016},
    ],
    "genetic": [{"income": 2.4223747, "amount": 8.7937679, "duration": 2.54247}],
}


def simulate(rows, seed):
    """Loans: money in thousands, income a month, duration in months. Yours is a data frame."""
    draw = np.random.default_rng(seed)
    age = draw.normal(42, 9, rows)
    favour = [np.zeros(rows), 0.8 + 0.05 * (age - 42) + draw.normal(size=rows), draw.normal(size=rows)]
    job = np.argmax(favour, axis=0)
    income = 1.7 + 0.02 * (age - 42) + np.array([0.0, 0.8, 0.9])[job] + draw.normal(0, 0.5, rows)
    amount = 8 + 2.5 * (income - 2) + draw.normal(0, 2, rows)
    duration = 30 + 2 * (amount - 8) - 4 * (income - 2) + draw.normal(0, 6, rows)
    odds = 1.2 * (income - 2) + np.array([0.0, 0.8, 0.2])[job] - 0.2 * (amount - 8) - 0.08 * (duration - 30)
    repaid = np.where(draw.logistic(size=rows) < odds, "yes", "no")
    columns = {"age": age, "job": np.array(JOBS)[job], "income": income, "amount": amount, "duration": duration}
    return pd.DataFrame({**columns, "repaid": repaid})


class Scorecard:
    """A logistic regression with the methods of scikit-learn. Any estimator that has them will do, a pipeline too."""

    feature_names_in_ = np.array(INPUTS)
    classes_ = np.array(["no", "yes"])

    def fit(self, table, repaid):
        x, y = self.design(table), np.asarray(repaid == "yes", float)
        self.weights = np.zeros(x.shape[1])
        for _ in range(20):  # Newton's method
            p = 1 / (1 + np.exp(-x @ self.weights))
            self.weights += np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), x.T @ (y - p))
        return self

    def design(self, table):
        job = np.asarray(table["job"], object)
        numbers = [np.asarray(table[name], float) for name in ("income", "amount", "duration")]
        return np.column_stack([np.ones(len(table)), job == JOBS[1], job == JOBS[2], *numbers]).astype(float)

    def log_odds(self, table):
        return self.design(table) @ self.weights

    def predict_proba(self, table):
        chance = 1 / (1 + np.exp(-self.log_odds(table)))
        return np.column_stack([1 - chance, chance])

    def predict(self, table):
        return self.classes_[(self.log_odds(table) > 0).astype(int)]


def causal_model(table):
    """A law for each variable, and the chance that the model gives on top of them."""
    laws = {name: bc.Linear() for name in ("age", "income", "amount", "duration")}
    scm = bc.SCM(bc.CausalGraph.parse(GRAPH), laws, constraints={"age": "fixed"})
    scm.fit(table, seed=0)

    return scm


def ask_shap(model, table, row):
    """What each input adds to the log-odds of a row, against their mean over the table."""
    import shap

    def coded(frame):  # SHAP takes numbers
        return frame[INPUTS].assign(job=[JOBS.index(job) for job in frame["job"]]).to_numpy(float)

    def log_odds(codes):
        frame = pd.DataFrame(codes, columns=INPUTS)
        return model.log_odds(frame.assign(job=[JOBS[int(code)] for code in frame["job"]]))

    background = shap.maskers.Independent(coded(table), max_samples=len(table))
    values = shap.ExactExplainer(log_odds, background)(coded(row)).values[0]

    return {name: float(value) for name, value in zip(INPUTS, values, strict=True)}


def ask_dice(model, table, row, method, count):
    """What to change so that the model accepts, in some ways: inputs and their new values."""
    import dice_ml

    known = table[INPUTS].assign(repaid=(table["repaid"] == "yes").astype(int))
    data = dice_ml.Data(dataframe=known, continuous_features=["income", "amount", "duration"], outcome_name="repaid")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=method)
    options = {"random_seed": 0} if method == "random" else {}
    np.random.seed(0)  # the genetic method draws from it
    made = explainer.generate_counterfactuals(row[INPUTS], total_CFs=count, desired_class="opposite", **options)
    found = made.cf_examples_list[0].final_cfs_df[INPUTS].to_dict("records")

    return [{name: value for name, value in each.items() if value != row[name].iloc[0]} for each in found]


def ask_deepbc(scm, model, row, **options):
    """What would have been different, had the model said yes."""
    judged = scm.extend("chance", bc.Predictor(model), parents=INPUTS)

    return bc.backtrack(judged, row, {"chance": bc.at_least(0.5)}, **options)


def line(title, scm, model, row, changes):
    """A world that differs from a row by some inputs: its values, and what the laws make of it."""
    world = row[INPUTS].assign(**changes)
    chance = model.predict_proba(world)[0, 1]
    # All inputs are given, so their noise is implied: how far has it moved?
    distance = float(bc.backtrack(scm, row, world.iloc[0].to_dict()).distance)
    # Somebody forces the changes: the other inputs follow by their laws.
    forced = bc.intervene(scm, row, changes).to_frame() if changes else row
    acted = model.predict_proba(forced)[0, 1]
    job, *numbers = world.iloc[0]

    return (
        f"{title:14s} {job:10s}"
        + "{:7.2f}{:8.2f}{:10.1f}".format(*numbers)
        + (f"{chance:8.2f}{len(changes):9d}{distance:10.2f}{acted:10.2f}")
    )


def main():
    """Asks all three, and prints what they say."""
    table = simulate(3000, seed=0)
    model = Scorecard().fit(table, table["repaid"])
    scm = causal_model(table)
    row = table[model.predict_proba(table)[:, 1] < 0.3].iloc[[0]]  # the first that is clearly refused

    installed = bool(find_spec("shap") and find_spec("dice_ml"))
    rests_on = ask_shap(model, table, row) if installed else SHAP_SAID
    changes = {
        method: ask_dice(model, table, row, method, len(said)) if installed else said
        for method, said in DICE_SAID.items()
    }
    cf = ask_deepbc(scm, model, row, answers=3)

    print("SHAP and DiCE:", "asked now" if installed else "as recorded with shap 0.51.0 and dice-ml 0.12")
    shares = ", ".join(f"{name} {share:+.2f}" for name, share in rests_on.items())
    print(f"SHAP: log-odds {model.log_odds(row)[0]:.2f}, on average {model.log_odds(table).mean():.2f}; {shares}")

    print(f"{'':14s} job         income  amount  duration  chance  changed  distance  acted on")
    print(line("as it was", scm, model, row, {}))
    for method, several in changes.items():
        for each in several:
            print(line(f"DiCE {method}", scm, model, row, each))
    for _, answer in cf.to_frame().iterrows():
        values = {name: answer[name] for name in INPUTS if answer[name] != answer[f"factual {name}"]}
        print(line("deepbc", scm, model, row, values))

    nearest = ask_deepbc(scm, model, row)
    print(f"deepbc: {nearest.describe()}")
    nearest.plot("refused_three_ways.png")
    print("figure: refused_three_ways.png")


if __name__ == "__main__":
    main()
