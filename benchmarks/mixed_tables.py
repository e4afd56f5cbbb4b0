"""Simulated tables like public ones: insurance (7 columns), census incomes (10 columns) and credits (9 columns)."""

import numpy as np
import pandas as pd

import deepbc as bc

INSURANCE = bc.CausalGraph.parse(
    "age, sex, region -> bmi; age, sex -> smoker; age -> children; age, bmi, smoker, children, region, sex -> charges"
)
CENSUS = bc.CausalGraph.parse(
    "age, sex, race -> education; age, sex -> marital; education, sex, race -> occupation; "
    "age, sex, marital, occupation -> hours; age, education, race -> capital; race -> region; "
    "age, education, sex, marital, occupation, hours, capital -> income"
)
CREDIT = bc.CausalGraph.parse(
    "sex; age -> job; age, job -> savings; age, savings -> housing; job, purpose -> amount; "
    "amount, purpose -> duration; age, job, savings, housing, purpose, amount, duration -> repaid"
)


def insurance(rows: int, seed: int = 0) -> pd.DataFrame:
    """Seven columns, five of them discrete; the charges are skewed, with an interaction of smoking and weight."""
    draw = np.random.default_rng(seed)
    age = np.clip(draw.normal(39, 14, rows).round(), 18, 64).astype(int)
    sex = draw.choice(["female", "male"], rows)
    region = draw.choice(["northeast", "northwest", "southeast", "southwest"], rows, p=[0.24, 0.24, 0.28, 0.24])
    bmi = 29 + 0.05 * (age - 39) + 0.6 * (sex == "male") + 4 * (region == "southeast") + draw.normal(0, 5.5, rows)
    smoker = draw.normal(-0.9 + 0.25 * (sex == "male") - 0.004 * (age - 39), 1.0) > 0
    children = np.clip((1.1 + 0.012 * (age - 39) + draw.normal(0, 1.25, rows)).round(), 0, 5).astype(int)
    log_charges = 8.3 + 0.034 * (age - 39) + 0.1 * children - 0.08 * (sex == "male") - 0.06 * (region == "southwest")
    log_charges = log_charges + smoker * (1.4 + 0.04 * (bmi - 30)) + draw.normal(0, 0.3, rows)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "bmi": bmi.round(2),
            "children": children,
            "smoker": np.where(smoker, "yes", "no"),
            "region": region,
            "charges": np.exp(log_charges).round(2),
        }
    )


def census(rows: int, seed: int = 0) -> pd.DataFrame:
    """Ten columns, seven of them categories, asked about a class."""
    draw = np.random.default_rng(seed)
    normal = lambda: draw.normal(size=rows)  # noqa: E731
    age = np.clip(17 + draw.gamma(2.6, 9.0, rows), 17, 90).round(1)
    sex = draw.uniform(size=rows) < 0.67
    race = draw.choice(["white", "black", "asian", "other"], rows, p=[0.85, 0.1, 0.03, 0.02])
    score = 0.2 * (age > 25) + 0.1 * sex - 0.3 * (race == "black") + normal()
    education = np.digitize(score, [-1.2, -0.1, 0.5, 0.9, 1.6])
    married = 0.05 * (age - 33) + 0.2 * sex + normal()
    marital = np.where(married > 0.2, "married", np.where(age + 8 * normal() > 45, "divorced", "single"))
    jobs = np.array(["clerk", "craft", "manager", "sales", "service", "specialist"])
    pull = np.stack(
        [
            0 * age,
            0.6 * sex - 0.3 * education,
            0.3 * education - 0.5,
            0 * age,
            0.4 - 0.3 * education,
            0.5 * education - 1.4,
        ],
        axis=1,
    )
    job = (pull + draw.normal(size=(rows, 6))).argmax(1)
    hours = np.clip(40 + 4 * sex + 2 * (job == 2) - 0.004 * (age - 42) ** 2 + 9 * normal(), 5, 99).round(1)
    capital = (0.4 * education + 0.01 * age + 0.8 * normal()).round(3)
    region = draw.choice(["east", "north", "south", "west"], rows)
    income = 0.5 * education + 1.1 * (marital == "married") + 0.02 * (hours - 40) + 0.3 * capital
    income = income + 0.015 * (age - 38) + 0.3 * np.isin(job, [2, 5]) + 0.2 * sex - 3.0 + 0.9 * normal()
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where(sex, "male", "female"),
            "race": race,
            "education": np.array(["none", "school", "college", "associate", "bachelor", "master"])[education],
            "marital": marital,
            "occupation": jobs[job],
            "hours": hours,
            "capital": capital,
            "region": region,
            "income": np.where(income > 0, ">50K", "<=50K"),
        }
    )


def credit(rows: int, seed: int = 0) -> pd.DataFrame:
    """Nine columns, five of them categories, one of whole months: who repaid a loan."""
    draw = np.random.default_rng(seed)
    age = np.clip(19 + draw.gamma(2.2, 7.5, rows), 19, 75).round(1)
    sex = np.where(draw.uniform(size=rows) < 0.6, "male", "female")
    jobs = np.array(["unskilled", "skilled", "clerk", "manager"])
    job = np.digitize(0.02 * (age - 35) + draw.normal(size=rows), [-0.9, 0.3, 1.2])
    savings = np.exp(6.2 + 0.45 * job + 0.02 * (age - 35) + 0.8 * draw.normal(size=rows)).round(0) + 1.5
    owns = 0.03 * (age - 35) + 0.5 * (np.log(savings) - 7) + draw.normal(size=rows)
    housing = np.array(["free", "rent", "own"])[np.digitize(owns, [-1.6, 0.1])]
    purpose = draw.choice(["car", "business", "education", "furniture"], rows, p=[0.35, 0.15, 0.15, 0.35])
    log_amount = 7.5 + 0.15 * job + 0.5 * (purpose == "business") - 0.4 * (purpose == "furniture")
    amount = np.exp(log_amount + 0.55 * draw.normal(size=rows)).round(2)
    months = 8 + 6.0 * np.sqrt(amount / 1000) + 4 * (purpose == "business") + 4.5 * draw.normal(size=rows)
    duration = np.clip(months.round(), 4, 72).astype(int)
    debt = 0.9 * (np.log(amount) - 7.5) + 0.06 * (duration - 18) - 0.45 * (np.log(savings) - 7) - 0.02 * (age - 35)
    debt = debt - 0.5 * (housing == "own") - 0.2 * job + 0.7 * (purpose == "business") * (job < 2)
    repaid = debt + 0.6 * draw.normal(size=rows) < 0.5
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "job": jobs[job],
            "savings": savings,
            "housing": housing,
            "purpose": purpose,
            "amount": amount,
            "duration": duration,
            "repaid": np.where(repaid, "yes", "no"),
        }
    )
