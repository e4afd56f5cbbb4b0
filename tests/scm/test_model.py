import math

import numpy as np
import pandas as pd
import pytest
import torch
from laws import growing, identity, weighted
from scipy import stats

import deepbc as bc
from deepbc.recipes import morphomnist

# a -> b -> y, a -> v (a vector); y is a prediction without noise
GRAPH = bc.CausalGraph({"a": [], "b": ["a"], "v": ["a"], "y": ["b"]})


def known() -> bc.SCM:
    vector = bc.Equation(
        predict=lambda u, parents: parents["a"] + u * torch.tensor([1.0, 2.0, 3.0]),
        abduct=lambda x, parents: (x - parents["a"]) / torch.tensor([1.0, 2.0, 3.0]),
        noise=3,
        value=3,
    )
    laws = {"a": identity(), "b": weighted({"a": 2.0}), "v": vector, "y": bc.Predictor(lambda p: p["b"] ** 2)}
    return bc.SCM(GRAPH, laws)


def test_given_laws_need_no_fit():
    scm = known()
    assert scm.fitted
    world = scm.sample(4, seed=0)
    assert world.values["a"].shape == (4,)
    assert world.values["v"].shape == (4, 3)
    assert world.noise["y"].shape == (4, 0)
    assert torch.equal(world.values["y"], world.values["b"] ** 2)
    assert torch.allclose(world.values["b"], 2 * world.values["a"] + world.noise["b"])


def test_complete_takes_value_or_noise_of_each_variable():
    world = known().complete(values={"b": 3.0, "a": 1.0}, noise={"v": [0.0, 0.0, 1.0]})
    assert world.noise["b"].item() == 1.0
    assert world.values["y"].item() == 9.0
    assert world.values["v"].tolist() == [1.0, 1.0, 4.0]
    assert world.batch == ()


def test_complete_by_values_and_by_noise_are_inverse():
    scm = known()
    world = scm.sample(20, seed=1)
    back = scm.complete(values=world.values)
    again = scm.complete(noise=back.noise)
    for name in scm.graph:
        assert torch.allclose(back.noise[name], world.noise[name], rtol=0, atol=1e-12)
        assert torch.allclose(again.values[name], world.values[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "data",
    [
        {"a": 1.0, "b": 2.5, "v": [1.0, 1.0, 1.0]},
        {"a": np.float32(1.0), "b": torch.tensor(2.5), "v": np.ones(3), "y": 6.25},
        pd.Series({"a": 1.0, "b": 2.5, "v": [1.0, 1.0, 1.0]}),
    ],
)
def test_one_row_comes_in_many_forms_and_drops_the_batch(data):
    noise = known().abduct(data)
    assert noise["a"].shape == ()
    assert noise["v"].shape == (3,)
    assert noise["b"].item() == pytest.approx(0.5)


def test_rows_of_a_data_frame_and_a_mapping_agree():
    scm = morphomnist.truth()
    frame = scm.sample(6, seed=0).to_frame()
    by_frame = scm.abduct(frame)
    by_lists = scm.abduct({name: frame[name].tolist() for name in frame})
    by_row = scm.abduct(frame.iloc[2])
    assert torch.equal(by_frame["intensity"], by_lists["intensity"])
    assert by_row["intensity"].shape == ()
    assert by_row["intensity"] == by_frame["intensity"][2]
    assert np.asarray(by_frame["intensity"]).dtype == np.float64


def test_many_batch_axes_and_no_rows():
    scm = known()
    noise = {"a": torch.zeros(2, 3), "b": torch.ones(2, 3), "v": torch.zeros(2, 3, 3)}
    assert scm.predict(noise)["v"].shape == (2, 3, 3)
    assert scm.predict(noise)["y"].shape == (2, 3)
    empty = scm.sample(0, seed=0)
    assert empty.values["v"].shape == (0, 3)
    assert scm.log_prob(empty.values).shape == (0,)
    assert len(empty.to_frame()) == 0


def test_frame_of_no_rows_keeps_its_columns():
    names = ["a", "b", "v[0]", "v[1]", "v[2]", "y"]
    for batch in ((0,), (0, 2)):
        noise = {"a": torch.zeros(batch), "b": torch.zeros(batch), "v": torch.zeros(*batch, 3)}
        assert list(known().complete(noise=noise).to_frame().columns) == names


def test_frame_of_vectors_is_read_back():
    scm = known()
    world = scm.sample(30, seed=0)
    frame = world.to_frame()
    assert torch.equal(scm.abduct(frame)["v"], scm.abduct(world.values)["v"])
    assert torch.equal(scm.abduct(frame[frame.columns[::-1]])["v"], scm.abduct(world.values)["v"])
    assert torch.equal(scm.abduct(frame.iloc[3])["v"], scm.abduct(world.values)["v"][3])
    fitted = bc.SCM(GRAPH, {**{name: bc.Linear() for name in "abv"}, "y": bc.Predictor(lambda p: p["b"] ** 2)})
    fitted.fit(frame)
    assert fitted.sample(2).values["v"].shape == (2, 3)
    with pytest.raises(bc.DataError, match=r"'v': expected its components v\[0\] to v\[2\], got 'v\[0\]', 'v\[2\]'"):
        scm.abduct(frame.drop(columns="v[1]"))
    with pytest.raises(bc.DataError, match="one number of rows"):
        scm.abduct({"a": 1.0, "b": 1.0, "v[0]": [1, 2], "v[1]": [1, 2, 3], "v[2]": 1.0})
    brackets = bc.SCM(bc.CausalGraph.parse("x[0] -> x[1]; x"), {n: identity() for n in ("x[0]", "x[1]", "x")})
    assert brackets.abduct({"x[0]": 1.0, "x[1]": 2.0, "x": 3.0})["x"] == 3.0


def test_one_value_goes_with_many_rows():
    world = known().complete(values={"a": 1.0}, noise={"b": [0.0, 1.0], "v": torch.zeros(3)})
    assert world.values["b"].tolist() == [2.0, 3.0]
    assert world.values["a"].tolist() == [1.0, 1.0]


def test_log_prob_of_linear_gaussian_laws_is_the_closed_form():
    scm = bc.SCM(
        bc.CausalGraph.parse("a -> b; a, b -> c"),
        {"a": weighted({}, 2.0), "b": weighted({"a": 0.5}, 0.3), "c": weighted({"a": 1.0, "b": -2.0}, 1.5)},
    )
    # x = F u with F lower triangular, so x ~ N(0, F F').
    b = np.array([0.5 * 2.0, 0.3, 0.0])
    factor = np.array([[2.0, 0.0, 0.0], b, [2.0, 0.0, 1.5] - 2 * b])
    world = scm.sample(50, seed=0)
    x = np.stack([world.values[name].numpy() for name in scm.graph], axis=-1)
    expected = stats.multivariate_normal(np.zeros(3), factor @ factor.T).logpdf(x)
    assert np.allclose(scm.log_prob(world.values), expected, rtol=0, atol=1e-10)
    parts = [scm.log_prob(world.values, of=[name]) for name in scm.graph]
    assert torch.allclose(sum(parts), scm.log_prob(world.values))


def test_log_prob_of_morphomnist_agrees_with_scipy():
    scm = morphomnist.truth()
    world = scm.sample(200, seed=0)
    t, i = (world.values[name].numpy() for name in ("thickness", "intensity"))
    expected = stats.gamma(10, loc=0.5, scale=0.2).logpdf(t)
    share = (i - 64) / 191
    expected += stats.norm(2 * t - 5, 0.5).logpdf(np.log(share / (1 - share))) - np.log(191 * share * (1 - share))
    assert np.allclose(scm.log_prob(world.values), expected, rtol=0, atol=1e-9)


def test_samples_are_seeded_by_variable():
    scm = morphomnist.truth()
    one, two, other = scm.sample(5, seed=3), scm.sample(5, seed=3), scm.sample(5, seed=4)
    assert torch.equal(one.values["intensity"], two.values["intensity"])
    assert not torch.equal(one.values["intensity"], other.values["intensity"])
    assert not torch.equal(scm.sample(5).values["intensity"], scm.sample(5).values["intensity"])
    changed = scm.replace("intensity", weighted({"thickness": 1.0}))
    assert torch.equal(changed.sample(5, seed=3).noise["intensity"], one.noise["intensity"])


def test_replace_shares_the_others_and_leaves_the_model():
    scm = morphomnist.truth()
    other = scm.replace("intensity", weighted({"thickness": 10.0}))
    assert other.mechanisms["thickness"] is scm.mechanisms["thickness"]
    world = other.complete(noise={"thickness": 0.0, "intensity": 1.0})
    assert world.values["intensity"] == pytest.approx(10 * world.values["thickness"].item() + 1)
    assert 64 < scm.complete(noise={"thickness": 0.0, "intensity": 1.0}).values["intensity"] < 255


def test_replace_that_leaves_only_given_laws_needs_no_fit():
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity()}, bounds={"b": (-100, 100)})
    other = scm.replace("b", weighted({"a": 2.0}))
    assert other.fitted
    assert other.predict({"a": 1.0, "b": 1.0})["b"] == 3.0
    assert other.variables["b"].lower == -100
    assert not scm.fitted


def test_replace_takes_only_a_mechanism_of_the_same_family():
    data = morphomnist.truth().sample(60, seed=0)
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {name: bc.Linear() for name in data.values})
    scm.fit(data.values)
    again = scm.replace("intensity", scm.mechanisms["intensity"])
    assert torch.equal(again.log_prob(data.values), scm.log_prob(data.values))
    with pytest.raises(bc.SettingError, match="expected a mechanism of the family"):
        scm.replace("intensity", scm.mechanisms["thickness"])
    waiting = scm.replace("intensity", bc.Flow())
    with pytest.raises(bc.NotFittedError, match="'intensity'"):
        waiting.sample(3)


def test_moves_reach_every_mechanism():
    data = morphomnist.truth().sample(100, seed=0)
    mechanisms = {"thickness": bc.Flow(), "intensity": bc.Linear(), "score": bc.Predictor(torch.nn.Linear(2, 1))}
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity; thickness, intensity -> score"), mechanisms)
    scm.fit(data.values, training=bc.Training(epochs=3))

    single = scm.to(dtype=torch.float32)

    for mechanism in single.mechanisms.values():
        assert all(tensor.dtype in (torch.float32, torch.bool) for tensor in mechanism.state_dict().values())
    assert all(tensor.dtype != torch.float32 for tensor in scm.mechanisms["thickness"].state_dict().values())
    world = single.sample(10, seed=0)
    assert world.values["score"].dtype == torch.float64
    assert torch.allclose(world.values["intensity"], scm.sample(10, seed=0).values["intensity"], rtol=1e-4)
    assert single.to(dtype=torch.float64).log_prob(data.values).dtype == torch.float64
    meta = scm.to("meta")
    assert all(tensor.is_meta for each in meta.mechanisms.values() for tensor in each.state_dict().values())


def bounded(lower, upper) -> bc.SCM:
    """b between bounds, fitted."""
    stream = np.random.default_rng(0)
    share = 1 / (1 + np.exp(-stream.normal(size=60)))
    scm = bc.SCM(bc.CausalGraph({"b": []}), {"b": bc.Linear()}, bounds={"b": (lower, upper)})
    scm.fit({"b": lower + (upper - lower) * share})
    return scm


@pytest.mark.parametrize("bounds", [(64, 255), (0.1, 0.3), (1 / 3, 2 / 3), (-0.7, 1e6)])
def test_single_precision_stays_inside_the_bounds(bounds):
    lower, upper = bounds
    single = bounded(lower, upper).to(dtype=torch.float32)
    values = single.predict({"b": torch.linspace(-60, 60, 2001)})["b"]
    assert ((values > lower) & (values < upper)).all()
    assert torch.isfinite(single.abduct({"b": values})["b"]).all()
    # Closer to the bounds than single precision can tell.
    near = [np.nextafter(lower, upper), np.nextafter(upper, lower)]
    assert torch.isfinite(single.abduct({"b": near})["b"]).all()
    assert torch.isfinite(single.log_prob({"b": near})).all()


def test_fit_in_single_precision_takes_values_next_to_a_bound():
    scm = bc.SCM(bc.CausalGraph({"b": []}), {"b": bc.Linear()}, bounds={"b": (64, 255)}).to(dtype=torch.float32)
    scm.fit({"b": [np.nextafter(64, 255), *np.linspace(65, 254, 59)]})
    assert torch.isfinite(scm.sample(10, seed=0).values["b"]).all()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"device": "cuda:77"}, "to: the device 'cuda:77' cannot be used"),
        ({"device": "gpu"}, "to: the device 'gpu' cannot be used"),
        ({"device": torch.float32}, "Write to(dtype=torch.float32)."),
        ({"dtype": torch.int64}, "expected the dtype torch.float32 or torch.float64, got torch.int64"),
        ({"dtype": torch.float32}, "tells the bounds (100000000.0, 100000001.0) of 'b' apart"),
    ],
)
def test_moves_that_cannot_be_are_refused(given, part):
    scm = bounded(1e8, 1e8 + 1)
    with pytest.raises(bc.SettingError) as caught:
        scm.to(**given)
    assert part in str(caught.value)
    assert scm.to("cpu", torch.float64).fitted


def test_many_rows_pass_in_chunks(monkeypatch):
    scm = known()
    world = scm.sample(20, seed=0)
    noise = {name: each.unflatten(0, (4, 5)) for name, each in world.noise.items()}
    seen = []
    spy = bc.Equation(predict=lambda u, p: u, abduct=lambda x, p: (seen.append(len(x)), x)[1])
    spied = scm.replace("b", spy)
    monkeypatch.setattr("deepbc.mechanisms.Mechanism.chunk", 3)

    assert torch.equal(scm.sample(20, seed=0).values["v"], world.values["v"])
    assert torch.equal(scm.predict(noise)["y"], world.values["y"].unflatten(0, (4, 5)))
    assert scm.log_prob(scm.predict(noise)).shape == (4, 5)
    values = {name: world.values[name] for name in "abv"}
    spied.log_prob(values)
    assert seen == [3, 3, 3, 3, 3, 3, 2]  # and each row once


def test_volume_term_of_a_law_that_scales_with_its_parent():
    # d u2 / d x2 = exp(-0.8 x1)
    scm = growing()
    mechanism = scm.mechanisms["x2"]
    x1 = torch.tensor([[0.3], [-2.0]], dtype=torch.float64)
    assert torch.allclose(mechanism.log_volume(torch.ones(2, 1, dtype=torch.float64), x1), -0.8 * x1[:, 0])


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda s: s.abduct({"a": 1.0, "b": 2.0}), bc.DataError, "'v': expected its value or its noise, got neither"),
        (lambda s: s.complete({"a": 1.0}, {"a": 1.0}), bc.DataError, "got both"),
        (lambda s: s.abduct({"a": 1.0, "c": 2.0}), bc.DataError, "'c' is not a variable of the graph"),
        (lambda s: s.abduct({"a": math.nan, "b": 1.0, "v": [1, 2, 3]}), bc.DataError, "missing value (NaN) in the row"),
        (lambda s: s.abduct({"a": [1, 2, math.inf], "b": 1, "v": [1, 2, 3]}), bc.DataError, "an infinity in row 2"),
        (
            lambda s: s.abduct({"a": 1.0, "b": 1.0, "v": [1.0, 2.0]}),
            bc.DataError,
            "expected shape (*batch, 3), got (2,)",
        ),
        (lambda s: s.predict({"a": 1.0, "b": math.nan, "v": [1, 2, 3]}), bc.DataError, "noise of 'b'"),
        (lambda s: s.predict({"a": [1, 2], "b": [1, 2, 3], "v": [1, 2, 3]}), bc.DataError, "one number of rows"),
        (lambda s: s.predict({"a": [[1], [2]], "b": [1, 2], "v": [1, 2, 3]}), bc.DataError, "one number of rows"),
        (lambda s: s.abduct({"a": "one", "b": 1.0, "v": [1, 2, 3]}), bc.DataError, "got the text 'one'"),
        (lambda s: s.abduct({"a": [True, False], "b": 1.0, "v": [1, 2, 3]}), bc.DataError, "got bool"),
        (lambda s: s.abduct({"a": 1j, "b": 1.0, "v": [1, 2, 3]}), bc.DataError, "complex"),
        (lambda s: s.abduct(3), bc.DataError, "got int"),
        (lambda s: s.abduct({"a": 1.0, "b": 3.0, "v": [1, 2, 3], "y": 8.0}), bc.DataError, "contradicts its Predictor"),
        (lambda s: s.sample(-1), bc.SettingError, "at least 0"),
        (lambda s: s.sample(1.5), bc.SettingError, "whole number"),
        (lambda s: s.log_prob(s.sample(2).values, of=["q"]), bc.UnknownNameError, "of: unknown name 'q'"),
        (lambda s: s.replace("q", bc.Flow()), bc.UnknownNameError, "'q'"),
        (lambda s: bc.SCM(GRAPH, {"q": bc.Flow()}), bc.UnknownNameError, "'q'"),
        (lambda s: bc.SCM(GRAPH, bounds={"a": (1, 1)}), bc.SettingError, "lower < upper"),
        (lambda s: bc.SCM(GRAPH, bounds={"a": 3}), bc.SettingError, "a pair of bounds"),
        (lambda s: bc.SCM(GRAPH, bounds={"a": ("0", "1")}), bc.SettingError, "a pair of bounds"),
        (lambda s: bc.SCM(GRAPH, bounds={"a": "01"}), bc.SettingError, "a pair of bounds"),
        (lambda s: s.replace("a", bc.Linear), bc.SettingError, "Write Linear()"),
        (
            lambda s: s.abduct({"a": torch.ones(2).to_sparse(), "b": 1.0, "v": [1, 2, 3]}),
            bc.DataError,
            "expected a dense tensor, got torch.sparse_coo",
        ),
        (lambda s: bc.SCM("a -> b"), bc.GraphError, "CausalGraph.parse"),
        (lambda s: bc.SCM(GRAPH).sample(3), bc.NotFittedError, "Call scm.fit(data) first"),
    ],
)
def test_bad_input_says_where_and_what_to_do(call, error, part):
    with pytest.raises(error) as caught:
        call(known())
    assert part in str(caught.value)


def test_value_on_or_beyond_a_bound_is_counted():
    data = morphomnist.truth().sample(100, seed=0)
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), bounds={"intensity": (64, 255)})
    scm.fit(data.values, training=bc.Training(epochs=2))
    with pytest.raises(bc.DataError, match=r"2 of 3 rows, first row 1 on a bound"):
        scm.abduct({"thickness": [2.0, 2.0, 2.0], "intensity": [100.0, 255.0, 64.0]})
    with pytest.raises(bc.DataError, match=r"inside the bounds \(64, 255\), got \[300.0\] in row 2"):
        scm.abduct({"thickness": [2.0, 2.0, 2.0], "intensity": [100.0, 254.0, 300.0]})


def test_law_that_returns_the_wrong_thing_is_named():
    flat = bc.Equation(predict=lambda u, parents: u.sum(), abduct=lambda x, parents: x)
    with pytest.raises(bc.DataError, match=r"predict of its Equation: expected shape \(3, 1\), got \(\)"):
        bc.SCM(bc.CausalGraph({"a": []}), {"a": flat}).sample(3)
    numeric = bc.Predictor(lambda parents: parents["a"].tolist())
    with pytest.raises(bc.DataError, match="expected a torch tensor, got list"):
        bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": numeric}).sample(3)
    wide = bc.Predictor(torch.nn.Linear(2, 1))
    with pytest.raises(bc.DataError, match=r"'y', its Predictor: its module fails on parents of shape \(3, 1\)"):
        bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": wide}).sample(3)


def test_predictor_leaves_the_users_module_as_it_was():
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout(0.5))
    scm = bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": bc.Predictor(net)})
    one, two = (scm.predict({"a": [1.0, 2.0]})["y"] for _ in range(2))
    assert torch.equal(one, two)
    assert net.training
    assert net[0].weight.dtype == torch.float32
    assert net[0].weight.requires_grad
    expected = net[0].weight.item() * torch.tensor([1.0, 2.0], dtype=torch.float64) + net[0].bias.item()
    assert torch.allclose(one, expected)


def test_value_that_no_noise_gives_is_an_error_not_a_nan():
    scm = morphomnist.truth()
    for call in (scm.abduct, scm.log_prob, lambda values: bc.intervene(scm, values, {"thickness": 3.0})):
        with pytest.raises(bc.DataError, match="'intensity': its law yields no noise for the value of row 1"):
            call({"thickness": [2.0, 2.0], "intensity": [100.0, 300.0]})


def test_given_law_that_leaves_its_bounds_is_named():
    scm = bc.SCM(bc.CausalGraph({"a": []}), {"a": identity()}, bounds={"a": (0, None)})
    with pytest.raises(bc.DataError, match=r"'a': its law left the declared bounds \(0, inf\)"):
        scm.sample(50, seed=0)
    assert scm.predict({"a": 1.0})["a"] == 1.0


def test_results_share_no_memory_with_the_input_or_each_other():
    scm = morphomnist.truth()
    values = scm.sample(3, seed=0).values
    cf = bc.intervene(scm, values, {"intensity": 200.0})
    before = {name: column.clone() for name, column in values.items()}
    cf.values["thickness"][0] = 99.0
    cf.values["intensity"][0] = 99.0
    assert all(torch.equal(values[name], before[name]) for name in values)
    assert torch.equal(cf.factual.values["thickness"], before["thickness"])
    assert cf.values["intensity"][1] == 200.0


def test_constructor_takes_settings_and_not_fits():
    data = morphomnist.truth().sample(60, seed=0).values
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {name: bc.Linear() for name in data})
    scm.fit(data)
    again = bc.SCM(scm.graph, scm.mechanisms)
    assert not again.fitted
    assert not again.replace("intensity", scm.mechanisms["intensity"]).fitted
    bounded = bc.SCM(scm.graph, {name: bc.Linear() for name in data}, bounds={"intensity": (60, 260)})
    bounded.fit(data)
    with pytest.raises(bc.SettingError, match=r"in \(60, 260\)"):
        bounded.replace("intensity", scm.mechanisms["intensity"])


def test_predictor_needs_parents():
    with pytest.raises(bc.SettingError, match="'a': a Predictor is a function of its parents"):
        bc.SCM(bc.CausalGraph({"a": []}), {"a": bc.Predictor(lambda parents: torch.ones(1))})


def test_law_with_more_noise_than_values_has_no_density():
    wide = bc.Equation(
        predict=lambda u, parents: u.sum(-1, keepdim=True), abduct=lambda x, parents: x.expand(-1, 2) / 2, noise=2
    )
    scm = bc.SCM(bc.CausalGraph({"a": []}), {"a": wide})
    assert not scm.mechanisms["a"].pinnable
    assert scm.sample(3, seed=0).noise["a"].shape == (3, 2)
    with pytest.raises(bc.SettingError, match="has no exact density"):
        scm.log_prob({"a": 1.0})
    assert math.isnan(scm.fit({"a": [1.0, 2.0, 4.0]})["a"].nll)


def test_moved_model_can_be_saved(tmp_path):
    scm = morphomnist.truth().to(dtype=torch.float32)
    scm.save(tmp_path / "model")
    assert torch.allclose(
        bc.SCM.load(tmp_path / "model").sample(5, seed=0).values["intensity"],
        scm.sample(5, seed=0).values["intensity"],
        rtol=1e-5,
    )


def test_laws_always_get_double_precision():
    seen = []
    spy = bc.Equation(predict=lambda u, parents: (seen.append(u.dtype), u)[1], abduct=lambda x, parents: x)
    bc.SCM(bc.CausalGraph({"a": []}), {"a": spy}).to(dtype=torch.float32).sample(3)
    assert seen == [torch.float64]


def test_positive_cause_acts_as_a_power_far_out():
    stream = np.random.default_rng(0)
    z = stream.normal(size=1000)
    data = {"a": np.exp(z), "b": np.exp(0.5 * z + 0.3 * stream.normal(size=1000))}
    for mechanism in (bc.Flow(correction=False), bc.Linear(), bc.Additive()):
        scm = bc.SCM(
            bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": mechanism}, bounds=dict.fromkeys("ab", (0, None))
        )
        scm.fit(data, training=bc.Training(epochs=30))
        # b = a^0.5 but for its noise, also at 30 times the data's upper quartile.
        far = scm.complete(values={"a": [20.0, 50.0]}, noise={"b": [0.0, 0.0]}).values["b"]
        assert np.allclose(far, np.sqrt([20.0, 50.0]), rtol=0.35), mechanism


def test_answer_outside_the_bounds_of_a_given_law_is_infeasible():
    laws = {"a": identity(), "b": weighted({"a": 1.0})}
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), laws, bounds={"b": (-3, 3)})
    cf = bc.intervene(scm, {"a": 0.1, "b": 0.2}, {"a": [0.5, 50.0]})
    assert list(cf.status) == ["converged", "infeasible"]


def test_masked_entries_and_repeated_names_are_refused():
    with pytest.raises(bc.DataError, match="NaN"):
        growing().abduct({"x1": np.ma.array([1.0, 999.0], mask=[False, True]), "x2": [1.0, 2.0]})
    with pytest.raises(bc.DataError, match="comes twice"):
        growing().abduct(pd.Series([1.0, 2.0, 3.0], index=["x1", "x2", "x1"]))


def test_seeds_and_counts_may_be_numpy_numbers():
    scm = growing()
    assert torch.equal(scm.sample(np.int64(3), seed=np.int64(3)).values["x2"], scm.sample(3, seed=3).values["x2"])
    with pytest.raises(bc.SettingError, match="seed: expected a whole number"):
        scm.sample(3, seed="x")


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: bc.SCM(GRAPH, {"a": bc.Linear}), "Write Linear()"),
        (lambda: bc.Predictor(3), "Predictor function: expected a function or a torch module, got 3"),
        (lambda: bc.Equation(predict=None, abduct=None), "Equation predict: expected a function"),
        (lambda: bc.Flow(hidden=32), "Write [32]"),
        (lambda: bc.Flow(layers="affine"), "expected a list of layers"),
        (lambda: bc.Flow(layers=["afine"]), "Did you mean 'affine'"),
        (lambda: known().log_prob(known().sample(2).values, of=[]), "number of variables in of"),
        (lambda: known().fit({}, training=5), "training: expected a"),
        (lambda: bc.intervene(growing(), {"x1": 0.0, "x2": 0.0}, {"x1": 1.0}, distance="near"), "expected a Distance"),
        (lambda: (bc.law("k")(lambda u, p: u), bc.law("k")(lambda u, p: 2 * u)), "the name is taken"),
    ],
)  # fmt: skip
def test_bad_settings_are_named(call, part):
    with pytest.raises(bc.DeepBCError) as caught:
        call()
    assert part in str(caught.value)


def test_lone_name_is_a_list_of_one():
    world = growing().sample(3, seed=0).values
    assert torch.equal(growing().log_prob(world, of="x2"), growing().log_prob(world, of=["x2"]))


def test_part_of_a_model_answers_as_the_whole():
    scm = bc.SCM(
        bc.CausalGraph.parse("a -> b -> c"), {"a": identity(), "b": weighted({"a": 2.0}), "c": weighted({"b": 1.0})}
    )
    part = scm.part(["b", "a"])
    assert list(part.graph) == ["a", "b"]
    rows = scm.sample(5, seed=0).values
    some = {name: rows[name] for name in ("a", "b")}
    assert torch.equal(
        bc.backtrack(part, some, {"b": 1.0}).values["a"], bc.backtrack(scm, rows, {"b": 1.0}).values["a"]
    )
    assert list(scm.graph) == ["a", "b", "c"]
    with pytest.raises(bc.GraphError, match="'a' is a cause of 'b' and left out"):
        scm.part(["b"])
    with pytest.raises(bc.UnknownNameError, match="unknown name 'd'"):
        scm.part(["d"])
