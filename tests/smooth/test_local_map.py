"""The affine map at a point: exact there, equal to the tile's map, and refused where there is none."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss

from ..network.ops.operations import AFFINE, FOLDS
from .models import GPT2Block, LanguageModel, LlamaBlock, convnext, embedded, real_models
from .networks import Called


def encoder(norm_first: bool, activation: str) -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True, norm_first=norm_first, activation=activation)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


ARCHITECTURES = {
    "encoder": (lambda: encoder(False, "relu"), (1, 5, 12), None),
    "pre-norm encoder": (lambda: encoder(True, "gelu"), (2, 5, 12), None),
    "gpt2": (lambda: LanguageModel(GPT2Block), (1, 5, 12), embedded),
    "llama": (lambda: LanguageModel(LlamaBlock), (2, 5, 12), embedded),
    "convnext": (convnext, (1, 3, 8, 8), None),
    "smooth mlp": (lambda: nn.Sequential(nn.Linear(4, 9), nn.Softplus(), nn.Linear(9, 9), nn.Tanh(), nn.Linear(9, 8),
                                         nn.GLU(), nn.Sigmoid(), nn.Linear(4, 3), nn.Hardswish()), (3, 4), None),
}  # fmt: skip


def made(name: str, dtype: torch.dtype = torch.float64):
    build, shape, forward = ARCHITECTURES[name]
    torch.manual_seed(3)
    model = build().to(dtype).eval()
    return model, torch.randn(shape, dtype=dtype), forward


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_map_gives_the_network_at_the_point(name, dtype, limit):
    model, x, forward = made(name, dtype)
    at = ss.local_map(model, x, forward=forward)
    with torch.no_grad():
        value = (forward or (lambda m, x: m(x)))(model, x).double().numpy().reshape(-1)
    written = at.matrix() @ x.double().numpy().reshape(-1) + at.constant.double().numpy().reshape(-1)
    assert np.linalg.norm(written - value) <= limit * np.linalg.norm(value)
    assert at.gap <= limit
    assert np.linalg.norm(at.matrix() @ x.double().numpy().reshape(-1)) > 0.005 * np.linalg.norm(value)
    for path in at.layers:
        assert at.layer(path).gap <= limit


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_held_network_is_affine_and_its_operator_is_the_matrix(name):
    model, x, forward = made(name)
    at = ss.local_map(model, x, forward=forward)
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=at.shape[1]), rng.normal(size=at.shape[0])
    matrix = at.matrix()
    assert np.allclose(at.operator @ v, matrix @ v, rtol=1e-10, atol=1e-10)
    assert np.allclose(at.operator.rmatvec(w), matrix.T @ w, rtol=1e-10, atol=1e-10)
    far = at(torch.from_numpy(5 * v)).reshape(-1).numpy()
    assert np.allclose(far, matrix @ (5 * v) + at.constant.numpy().reshape(-1), rtol=1e-10, atol=1e-9)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.2, inplace=True))

    def forward(self, x):
        return torch.maximum(x + self.inner(x), 0.3 * x.flip(1)).clamp(-0.8, 0.9)


def test_on_piecewise_affine_networks_it_is_the_map_of_the_tile():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), Residual(),
                          nn.Flatten(), nn.Linear(36, 10), nn.PReLU(), nn.Linear(10, 5)).double().eval()  # fmt: skip
    x = torch.randn(1, 1, 6, 6, dtype=torch.float64)
    at = ss.local_map(model, x)
    jacobian = torch.autograd.functional.jacobian(model, x).reshape(5, 36).numpy()
    assert np.abs(at.matrix() - jacobian).max() < 1e-13 * np.abs(jacobian).max() * 36
    assert at.gap < 1e-14
    near = at.validity([1e-7, 30.0], layers=False).error[0]
    assert near[0] < 1e-7 < 0.05 < near[1]  # exact inside the tile, wrong far outside


class SideBySide(nn.Module):
    """Functions of one input, flattened, beside each other."""

    def __init__(self, functions) -> None:
        super().__init__()
        self.functions = functions
        self.parts = nn.ModuleList([f for f in functions if isinstance(f, nn.Module)])

    def forward(self, x):
        return torch.cat([f(x * 1.0).reshape(len(x), -1) for f in self.functions], 1)


@pytest.mark.parametrize("shape", sorted({shape for _, shape in {**AFFINE, **FOLDS}.values()}))
def test_every_operation_that_has_tiles_has_its_map(shape):
    """What is affine stays, what folds is held on its side, and near the point it is f."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # constants that functions make on the way
    try:
        known = {**AFFINE, **FOLDS}
        del known["casts"]  # detaches its input, which marks it as held
        del known["scatter"]  # torch has no gradient of it
        names = [name for name, (_, own) in known.items() if own == shape]
        model = SideBySide([known[name][0] for name in names]).eval().double()
        torch.manual_seed(0)
        x = torch.randn(2, *shape)
        at = ss.local_map(model, x)
        near = x + 1e-7 * torch.randn_like(x)  # in the same tile
        with torch.no_grad():
            wrong = (at(near) - model(near)).abs().amax(0)
            ends = np.cumsum([model.functions[i](x.clone()).reshape(2, -1).shape[1] for i in range(len(names))])
        assert at.gap < 1e-14
        bad = {names[int(np.searchsorted(ends, int(place), side="right"))] for place in (wrong > 1e-12).nonzero()}
        assert not bad
    finally:
        torch.set_default_dtype(default)


AWKWARD = {
    "where as a method": lambda a, b, x: b(x).where(a(x) > 0, 0.5),
    "places by values": lambda a, b, x: torch.zeros(3, 6, dtype=x.dtype).index_add_(0, a(x)[:, :3].argmax(-1), b(x)),
    "assigned by values": lambda a, b, x: _assigned(b(x), a(x) > 0, 0.5),
    "assigned factors": lambda a, b, x: b(x) * _assigned(torch.zeros_like(x), a(x) > 0, 3.0),
    "the largest of all": lambda a, b, x: torch.stack([a(x).max(), b(x).amax((0, 1))]),
    "the largest few": lambda a, b, x: a(x).topk(2, dim=1).values.sum(1) + b(x).sort(-1, descending=True)[0][:, 1],
    "mixed by a gate": lambda a, b, x: torch.lerp(a(x), b(x), torch.sigmoid(x)),
    "divided by name": lambda a, b, x: torch.div(a(x), other=1 + b(x).abs()),
    "squared ReLU": lambda a, b, x: b(a(x).relu().square() + a(x).relu() ** 3),
    "SiLU of a clamped value": lambda a, b, x: (lambda z: z * torch.sigmoid(1.7 * z))(a(x).clamp(-1, 1)),
    "waves": lambda a, b, x: b(torch.sin(3 * a(x)).cos() + torch.exp(-x)),
    "Fourier": lambda a, b, x: torch.fft.fft(torch.fft.fft(a(x).reshape(3, 2, 3)), dim=1).real,
    "of experts": lambda a, b, x: torch.zeros_like(x).scatter(1, *_chosen(a(x).softmax(-1))) * b(x),
}


def _assigned(z, mask, value):
    z = z.clone()
    z[mask] = value
    return z


def _chosen(shares):
    best = shares.topk(2)
    return best.indices, best.values


@pytest.mark.parametrize("name", AWKWARD)
def test_what_models_of_today_do_with_values_is_held(name):
    class Awkward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            return AWKWARD[name](self.a, self.b, x)

    torch.manual_seed(0)
    at = ss.local_map(Awkward().double().eval(), torch.randn(3, 6, dtype=torch.float64))
    assert at.gap < 1e-14
    u, v = (torch.randn(3, 6, dtype=torch.float64) for _ in range(2))
    assert torch.allclose(at(u) + at(v), at(u + v) + at.constant, atol=1e-12)  # affine


def test_layer_norm_holds_its_scale_and_keeps_its_centering():
    norm = nn.LayerNorm(6).double()
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.normal_()
    x = torch.randn(1, 6, dtype=torch.float64)
    centering = np.eye(6) - 1 / 6
    scale = norm.weight.detach().numpy() / np.sqrt(x.numpy().var() + norm.eps)
    at = ss.local_map(norm, x)
    assert np.allclose(at.matrix(), scale[:, None] * centering, atol=1e-14)
    assert np.allclose(at.constant.numpy(), norm.bias.detach().numpy(), atol=1e-15)


def test_attention_holds_its_weights():
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    scores = (2 * x[0] @ x[0].T / 3**0.5).masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf)
    at = ss.local_map(Called(lambda x: F.scaled_dot_product_attention(x, 2 * x, x, is_causal=True)), x)
    assert np.allclose(at.matrix(), np.kron(scores.softmax(1).numpy(), np.eye(3)), atol=1e-14)
    token = at.part(output=(0, 2), input=(0, 1))
    assert np.allclose(token.matrix(), scores.softmax(1)[2, 1].item() * np.eye(3))
    assert np.allclose(token.singular_values(1), scores.softmax(1)[2, 1].item())
    assert token.effective_rank() == pytest.approx(3.0)


def test_a_gate_is_held_and_its_partner_is_not():
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(3, 4).double(), nn.Linear(3, 4).double()

        def forward(self, x):
            return torch.sigmoid(self.gate(x)) * self.up(x)

    model, x = Gated(), torch.randn(1, 3, dtype=torch.float64)
    held = torch.sigmoid(model.gate(x)).detach().numpy().T
    assert np.allclose(ss.local_map(model, x).matrix(), held * model.up.weight.detach().numpy())


def test_gates_have_their_limit_where_the_input_is_zero():
    at = ss.local_map(nn.Sequential(nn.GELU(), nn.Tanh()), torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    assert at.matrix()[0, 0] == pytest.approx(0.5)
    assert at.gap < 1e-15


def test_singular_values_by_products_are_those_of_the_matrix():
    model, x, forward = made("gpt2")
    at = ss.local_map(model, x, forward=forward)
    dense = np.linalg.svd(at.matrix(), compute_uv=False)
    assert np.allclose(at.singular_values(), dense, atol=1e-12)
    assert np.allclose(at.singular_values(4), dense[:4], rtol=1e-8)
    assert 1 < at.effective_rank() < at.shape[1]


def test_validity_grows_with_distance_and_knows_the_layers():
    model, x, forward = made("llama")
    found = ss.local_map(model, x, forward=forward).validity([1e-3, 1.0, 30.0], directions=3)
    assert found.paths == ("", "h.0", "h.1")
    assert found.error.shape == (3, 3)
    assert (found.error[:, -1] > found.error[:, 0]).all()
    linear = ss.local_map(nn.Linear(3, 2).double(), torch.ones(1, 3)).validity([1.0], layers=False)
    assert linear.error.max() < 1e-14


def test_the_model_is_left_as_found():
    model, x, forward = made("gpt2")
    kept = []
    model.h[0].register_forward_hook(lambda *_: kept.append(1))
    before = {name: p.clone() for name, p in model.state_dict().items()}
    state = torch.get_rng_state()
    ss.local_map(model, x, forward=forward).layer("h.1").matrix()
    assert torch.equal(state, torch.get_rng_state())
    assert not kept
    assert len(model.h[0]._forward_hooks) == 1
    assert not model.h[1]._forward_pre_hooks
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[name], p) for name, p in model.state_dict().items())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "vit"])
def test_real_transformers_have_their_map(name, attention):
    model, shape, forward = real_models(attention)[name]
    torch.manual_seed(1)
    at = ss.local_map(model.float().eval(), torch.randn(shape), forward=forward)
    assert at.gap <= 1e-5
    assert len(at.layers) == 2
    assert at.layer(at.layers[1]).gap <= 1e-5
    assert np.linalg.norm(at.part(output=(0, -1)).matrix()) > 0


@pytest.mark.parametrize("radius", [0.1, 2.0])
def test_validity_is_the_share_of_the_change_that_the_map_gets_wrong(radius):
    start = 0.7
    at = ss.local_map(nn.Sequential(nn.SiLU()), torch.tensor([[start]], dtype=torch.float64))
    found = float(at.validity([radius], directions=1, layers=False).error[0, 0])

    def silu(x):
        return x / (1 + np.exp(-x))

    gate = silu(start) / start
    either = [abs(silu(x) - gate * x) / abs(silu(x) - silu(start)) for x in (start + radius, start - radius)]
    assert min(abs(found - error) for error in either) < 1e-12
