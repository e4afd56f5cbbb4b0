"""The paper's networks of faces, layer by layer against what it prints, and batch normalisation in the loop."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import deepbc as bc
from deepbc.datasets import faces
from deepbc.mechanisms.conv_vae import NORM_ROWS
from deepbc.nn.paper import FaceClassifier, FaceDrawer, FaceReader, update_batch_norm
from deepbc.queries.search_model import in_noise_precision
from deepbc.recipes.classifiers import Classifier
from deepbc.training.trainer import Trainer

# Appendix B.3.2: channels, kernel, stride and padding of the layers, from the one nearest to the input.
ENCODER, DECODER = (128, 128, 128, 256, 512, 1024), (512, 256, 128, 128, 128)
GRAPH = bc.CausalGraph.parse("age, beard -> image")
NUMBERS = {"age": bc.Linear(), "beard": bc.Linear()}
SHORT = {"image": bc.Training(epochs=2, batch=32, learning_rate=1e-3, average=1, pull=0.0, clip=1e4)}


def sizes(layers, features):
    """The shapes after each layer."""
    shapes = []
    for layer in layers:
        features = layer(features)
        shapes.append(tuple(features.shape[1:]))
    return shapes


def test_the_encoder_of_128_has_the_printed_layers():
    reader = FaceReader(128, 4, 512).eval()
    assert sizes(reader.layers, torch.zeros(1, 7, 128, 128)) == [
        (channels, side, side) for channels, side in zip(ENCODER, (64, 32, 16, 8, 4, 2), strict=True)
    ]
    for layer in reader.layers:
        assert (layer.kernel_size, layer.stride, layer.padding) == ((3, 3), (2, 2), (1, 1))
    assert [norm.num_features for norm in reader.norms] == list(ENCODER)
    assert (reader.last.in_features, reader.last.out_features) == (1024, 512)
    assert reader(torch.zeros(2, 3, 128, 128), torch.zeros(2, 4)).shape == (2, 512)


def test_the_decoder_of_128_has_the_printed_layers_and_a_sixth():
    drawer = FaceDrawer(128, 4, 256).eval()
    assert (drawer.hidden.in_features, drawer.hidden.out_features) == (260, 4 * 1024)
    assert sizes(drawer.layers, torch.zeros(1, 1024, 2, 2)) == [
        (channels, side, side) for channels, side in zip((*DECODER, 3), (4, 8, 16, 32, 64, 128), strict=True)
    ]
    for layer in drawer.layers:
        assert (layer.kernel_size, layer.stride, layer.padding) == ((3, 3), (2, 2), (1, 1))
    assert [norm.num_features for norm in drawer.norms] == list(DECODER)
    assert drawer(torch.zeros(2, 256), torch.zeros(2, 4)).shape == (2, 3, 128, 128)


def test_the_smaller_ones_of_64_halve_five_times():
    reader, drawer = FaceReader(64, 4, 512).eval(), FaceDrawer(64, 4, 256).eval()
    assert [shape[1] for shape in sizes(reader.layers, torch.zeros(1, 7, 64, 64))] == [32, 16, 8, 4, 2]
    assert [shape[1] for shape in sizes(drawer.layers, torch.zeros(1, 512, 2, 2))] == [4, 8, 16, 32, 64]
    assert drawer(torch.zeros(2, 256), torch.zeros(2, 4)).shape == (2, 3, 64, 64)


def test_parents_are_channels_beside_the_colours():
    reader = FaceReader(64, 2, 8).eval()
    image, condition, seen = torch.rand(3, 3, 64, 64), torch.randn(3, 2), []
    reader.layers[0].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    reader(image, condition)
    assert torch.equal(seen[0][:, :3], image)
    assert torch.equal(seen[0][:, 3:], condition[..., None, None].expand(3, 2, 64, 64))


@pytest.mark.parametrize(("side", "coarse"), [(128, 4), (64, 2), (32, 2), (16, 1)])
def test_the_classifier_pools_four_times_and_drops_in_training_alone(side, coarse):
    network = FaceClassifier((3, side, side))
    assert [layer.kernel_size for layer in network.layers] == [(3, 3)] * 4
    assert network.hidden.in_features == 64 * coarse**2
    image = torch.rand(5, 3, side, side)
    network.stream = torch.Generator().manual_seed(0)
    assert not torch.equal(network(image), network(image))
    assert torch.equal(network.eval()(image), network(image))


def test_gradients_reach_every_weight_of_a_classifier():
    classifier = Classifier((3, 32, 32)).train()
    classifier.loss(255 * torch.rand(40, 3 * 32 * 32), (torch.arange(40) % 2)[:, None].double()).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in classifier.parameters())


def test_settling_measures_the_rows_it_is_given():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2, momentum=None))
    rows = torch.randn(400, 1, 4, 4) * 3 + 1
    network(rows * 7)  # what came before is forgotten
    update_batch_norm(network, lambda batch: network(rows[batch]), torch.arange(400).split(100))
    outputs = network.eval()(rows)
    assert torch.allclose(outputs.mean((0, 2, 3)), torch.zeros(2), atol=1e-4)
    assert torch.allclose(outputs.std((0, 2, 3)), torch.ones(2), atol=0.02)


@pytest.fixture(scope="module")
def data():
    drawn = faces.sample(200, seed=0).values
    return {name: drawn[name] for name in ("age", "beard", "image")}


def paper(data, training, checkpoint=None) -> bc.SCM:
    scm = bc.SCM(GRAPH, {**NUMBERS, "image": bc.ConvVAE(noise=8, preset="paper")})
    scm.fit(data, seed=0, training=training, checkpoint=checkpoint)
    return scm


@pytest.fixture(scope="module")
def fitted(data):
    return paper(data, SHORT)


def test_a_row_alone_is_read_as_among_others(fitted, data):
    few = {name: each[:6] for name, each in data.items()}
    whole = fitted.abduct(few)["image"]
    alone = [fitted.abduct({name: each[k] for name, each in few.items()})["image"] for k in range(6)]
    assert torch.allclose(torch.stack(alone), whole, atol=1e-4)
    assert not any(module.training for module in fitted.mechanisms["image"].modules())


@pytest.mark.parametrize("average", [1, 50])
def test_statistics_are_those_of_the_weights_that_are_kept(data, average):
    scm = paper(data, {"image": replace(SHORT["image"], learning_rate=3e-3, average=average)})
    norms, seen = scm.mechanisms["image"].encoder.norms, []
    for norm in norms:
        norm.register_forward_hook(lambda layer, inputs, outputs: seen.append(outputs))
    assert len(data["image"]) < NORM_ROWS
    scm.abduct(data)
    for norm, features in zip(norms, seen, strict=True):
        # A few of these rows were held out.
        assert ((features.mean((0, 2, 3)) - norm.bias) / norm.weight).abs().mean() < 0.1
        assert (features.std((0, 2, 3)) / norm.weight.abs() - 1).abs().mean() < 0.1


def test_statistics_are_saved_and_survive_copies(fitted, data, tmp_path):
    few = {name: each[:4] for name, each in data.items()}
    u = fitted.abduct(few)
    expected = fitted.predict(u)["image"]
    fitted.save(tmp_path / "model")
    loaded = bc.SCM.load(tmp_path / "model")
    assert torch.equal(loaded.predict(u)["image"], expected)
    assert torch.equal(loaded.abduct(few)["image"], u["image"])
    precise = in_noise_precision(fitted, ["image"])
    assert precise.mechanisms["image"].encoder.norms[0].running_var.dtype == torch.float64
    assert torch.allclose(precise.predict(u)["image"], expected, atol=1e-2)
    assert torch.equal(copy.deepcopy(fitted).predict(u)["image"], expected)


def test_a_killed_fit_ends_with_the_same_statistics(data, fitted, tmp_path):
    class KilledError(Exception):
        pass

    def kill(loop, adam, run, best, stage, save=Trainer._save):
        save(loop, adam, run, best, stage)
        if stage == "autoencoder":
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepbc.training.trainer.SECONDS_BETWEEN_SAVES", 0.0)
        patch.setattr("deepbc.training.trainer.Trainer._save", kill)
        with pytest.raises(KilledError):
            paper(data, SHORT, tmp_path / "kept")
    again = paper(data, SHORT, tmp_path / "kept").mechanisms["image"].state_dict()
    for key, value in fitted.mechanisms["image"].state_dict().items():
        assert torch.equal(again[key], value), key


def test_channels_may_come_last(data):
    last = {**data, "image": np.ascontiguousarray(data["image"].permute(0, 2, 3, 1))[:64], "age": data["age"][:64]}
    last["beard"] = data["beard"][:64]
    one = {"image": bc.Training(epochs=1, batch=32, pull=0.0)}
    assert paper(last, one).sample(2, seed=0).values["image"].shape == (2, 64, 64, 3)


def test_other_sizes_are_refused():
    for shape in [(3, 32, 32), (3, 64, 128), (1, 64, 64), (64, 64)]:
        with pytest.raises(bc.DataError, match="28 x 28, or of 64 x 64 or 128 x 128 with 3 channels"):
            bc.SCM(bc.CausalGraph({"image": []}), {"image": bc.ConvVAE(preset="paper")}).fit(
                {"image": torch.rand(50, *shape)}
            )
