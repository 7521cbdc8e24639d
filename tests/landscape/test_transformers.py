"""Models shaped like GPT-2: token ids, attention by torch's fused kernel, the tanh form of GELU written out."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian

import splinescope as ss
from splinescope.landscape.skips import find_skips

from .networks import parameters


class WrittenGELU(nn.Module):
    """The tanh form as GPT-2's own code has it: with an addition of x and a function of x."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(2, (2, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, 2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.act, self.c_proj = nn.Linear(width, 2 * width), WrittenGELU(), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.act(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width)
        self.ln_2, self.mlp = nn.LayerNorm(width), Feed(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Tiny(nn.Module):
    """Two blocks of width 4 on 5 tokens out of 7, and three classes from the last one."""

    def __init__(self, blocks: int = 2, width: int = 4) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(7, width), nn.Embedding(5, width)
        self.h = nn.ModuleList(Block(width) for _ in range(blocks))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x)[:, -1])


@pytest.fixture(scope="module")
def model() -> Tiny:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Tiny().double().eval()


IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 0, 2], [0, 0, 1, 6, 3]])
CLASSES = torch.tensor([0, 2, 1])


def test_residuals_are_found_and_named_by_their_part(model: Tiny) -> None:
    found = find_skips(model, IDS)
    assert [skip.name for skip in found] == ["h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp"]
    assert [skip.path for skip in found] == ["h.0", "h.0", "h.1", "h.1"]
    assert all(skip.identity for skip in found)


@pytest.mark.parametrize("norm_first", [False, True])
def test_residuals_of_torch_itself_are_named_by_what_is_added(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=norm_first)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    found = find_skips(stack, torch.randn(2, 3, 4))
    assert [skip.name for skip in found] == [f"layers.{i}.{part}" for i in (0, 1) for part in ("self_attn", "linear2")]


def test_models_of_hugging_face_are_taken_as_they_are() -> None:
    """Their result is a data class that also holds a cache of keys and values."""
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 7, "n_positions": 8}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    base, lm = transformers.GPT2Model(config).eval(), transformers.GPT2LMHeadModel(config).eval()
    assert [skip.name for skip in find_skips(base, IDS)] == ["h.0.attn", "h.0.mlp"]
    assert len(ss.skip_conditioning(base, IDS[:1])) == 2
    targets = torch.randn(3, 5, 7)
    bias = "transformer.ln_f.bias"
    matrix = ss.curvature(lm, IDS, targets, layer=bias).dense()
    slopes = lm.lm_head.weight.detach().double().repeat(5, 1).numpy()  # of the logits, at all five tokens
    assert np.allclose(matrix, 2 * slopes.T @ slopes, rtol=1e-6)
    surface = ss.loss_surface(lm, IDS, targets, {bias: torch.ones(8)}, resolution=3, loss="squared")
    away = lm(IDS).logits.detach() - targets
    assert surface.losses[1] == pytest.approx(float(away.square().sum() / 3), rel=1e-5)
    with pytest.raises(ss.InputError, match=r"must run on x, here torch.float32 rows of shape \(5, 8\).*inputs_embeds"):
        ss.local_map(lm, torch.randn(1, 5, 8))
    with pytest.raises(ss.InputError, match=r"must run on x, here torch.float32 rows"):
        ss.complexity.robustness(lm, torch.randn(1, 5, 8), torch.zeros(1).long(), epsilons=0.1)


@pytest.mark.parametrize(
    "function",
    [
        WrittenGELU().forward,
        lambda x: x + torch.sigmoid(x),
        lambda x: x + 0.3 * torch.relu(x) * torch.exp(-x.square()),
        lambda x: x * 0.6 + torch.cat([-x[:, 2:], x[:, :2]], 1) * 0.8,  # a rotation of pairs, as of positions
    ],
    ids=["gelu", "sigmoid", "bump", "rotary"],
)
def test_additions_inside_one_activation_are_no_skips(function) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(function(self.first(x)))

    net, x = Net().eval(), torch.randn(3, 4)
    assert find_skips(net, x) == []
    torch.testing.assert_close(ss.landscape.without_skips(net, x)(x), net(x))


def test_blocks_that_add_several_times_without_parts_are_numbered() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3))

        def forward(self, x: Tensor) -> Tensor:
            x = x + torch.relu(x @ self.weight)
            return x + torch.relu(x @ self.weight)

    assert [skip.name for skip in find_skips(Net().eval(), torch.randn(2, 3))] == ["model #1", "model #2"]


def test_switching_all_residuals_off_leaves_the_branches(model: Tiny) -> None:
    with torch.no_grad():
        x = model.wte(IDS) + model.wpe(torch.arange(5))
        for block in model.h:
            x = block.mlp(block.ln_2(block.attn(block.ln_1(x))))
        torch.testing.assert_close(ss.landscape.without_skips(model, IDS)(IDS), model.head(model.ln_f(x)[:, -1]))
        x = model.wte(IDS) + model.wpe(torch.arange(5))
        x = model.h[1](model.h[0].mlp(model.h[0].ln_2(x + model.h[0].attn(model.h[0].ln_1(x)))))
        torch.testing.assert_close(
            ss.landscape.without_skips(model, IDS, ["h.0.mlp"])(IDS), model.head(model.ln_f(x)[:, -1])
        )


def test_conditioning_of_a_block_is_that_of_its_jacobian(model: Tiny) -> None:
    shares: list[float] = []
    found = ss.skip_conditioning(model, IDS, skips=["h.0.mlp"], progress=lambda share, now: shares.append(share))
    assert shares == [0.0]
    block = model.h[0]
    with torch.no_grad():
        x = model.wte(IDS) + model.wpe(torch.arange(5))
        x = x + block.attn(block.ln_1(x))
    for i in range(len(IDS)):
        jacobian = torch.autograd.functional.jacobian(lambda s: block.mlp(block.ln_2(s[None]))[0], x[i])
        branch = jacobian.reshape(20, 20).numpy()
        got = found["h.0.mlp"]
        assert got.with_skip.condition[i] == pytest.approx(np.linalg.cond(branch + np.eye(20)), rel=1e-9)
        assert got.with_skip.norm[i] == pytest.approx(np.linalg.norm(branch, 2), rel=1e-9)
        assert np.isinf(got.without.condition[i])  # layer norm loses the mean and the scale of every token


def test_a_network_without_skips_has_an_empty_answer_that_says_so() -> None:
    found = ss.skip_conditioning(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.randn(4, 2))
    assert len(found) == 0
    assert "no skip connections" in found.summary()
    with pytest.raises(KeyError, match="no skip connections"):
        found["0"]
    with pytest.raises(ss.InputError, match="has no skips"):
        ss.skip_conditioning(nn.Linear(2, 2), torch.randn(4, 2), skips=["0"])


def test_a_projection_is_told_from_an_identity_and_its_jacobian_is_whole() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.short, self.long = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))

        def forward(self, x: Tensor) -> Tensor:
            return self.short(x) + self.long(x)

    net, x = Net().eval(), torch.randn(2, 3)
    (block,) = ss.skip_conditioning(net, x)
    assert (block.skip.name, block.skip.identity) == ("model", False)
    jacobian = torch.autograd.functional.jacobian(lambda s: net.double()(s[None])[0], x[0].double())
    assert block.with_skip.condition[0] == pytest.approx(np.linalg.cond(jacobian.numpy()), rel=1e-9)
    assert np.isinf(block.with_skip.bound).all()
    assert "projection" in ss.skip_conditioning(net, x).summary()


def test_curvature_of_attention_is_the_hessian_of_its_plain_kernel(model: Tiny) -> None:
    """torch's fused kernel has no second derivatives; the plain one is the same function."""
    names = ["h.0.attn.c_proj.bias", "h.1.attn.c_attn.bias"]
    moving = {name: parameters(model)[name] for name in names}

    def value(flat: Tensor) -> Tensor:
        pieces = flat.split([p.numel() for p in moving.values()])
        given = {name: piece.reshape(p.shape) for (name, p), piece in zip(moving.items(), pieces, strict=True)}
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return nn.functional.cross_entropy(functional_call(model, given, (IDS,)), CLASSES)

    want = hessian(value)(torch.cat(list(moving.values()))).detach().numpy()
    found = ss.curvature(model, IDS, CLASSES, loss="cross_entropy", kind="hessian", layer=names)
    np.testing.assert_allclose(found.dense(), want, atol=1e-12)


def test_token_ids_stay_whole_numbers(model: Tiny) -> None:
    move = ss.landscape.random_directions(model, 1, generator=torch.Generator().manual_seed(0))[0]
    for data in (IDS, IDS.numpy(), IDS.to(torch.int32)):
        surface = ss.loss_surface(model, data, CLASSES, move, resolution=3)
        with torch.no_grad():
            want = float(nn.functional.cross_entropy(model(IDS), CLASSES))
        assert surface.losses[1] == pytest.approx(want, rel=1e-12)
    pixels = torch.randint(0, 255, (4, 3), dtype=torch.uint8)  # a network of floats still takes bytes
    net = nn.Linear(3, 2)
    losses = ss.loss_surface(net, pixels, torch.tensor([0, 1, 1, 0]), {"bias": torch.ones(2)}, resolution=3).losses
    want = float(nn.functional.cross_entropy(net(pixels.float()), torch.tensor([0, 1, 1, 0])).detach())
    assert losses[1] == pytest.approx(want, rel=1e-6)


def test_volumes_pass_through_attention() -> None:
    """A generator with fused attention, against the Jacobian by the plain kernel."""

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.last = Block(4), nn.Linear(8, 6)

        def forward(self, z: Tensor) -> Tensor:
            return self.last(self.block(z.unflatten(1, (2, 2)).repeat(1, 1, 2)).flatten(1))

    torch.manual_seed(0)
    generator, z = Generator().double().eval(), torch.randn(3, 4).double()
    found = ss.log_volume(generator, z)
    for i in range(3):
        jacobian = torch.autograd.functional.jacobian(lambda s: generator(s[None])[0], z[i])
        assert found.log[i] == pytest.approx(float(torch.linalg.svdvals(jacobian).log().sum()), rel=1e-9)


class Doubled(torch.autograd.Function):
    """A function of one's own with a backward only: torch has no forward mode for it, and does not batch it."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return 2 * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return Doubled.apply(self.last(x))


class OnceOnly(nn.Module):
    """Runs for its first call only, and fails as models do."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.last, self.error, self.calls = nn.Linear(2, 2), error, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 1:
            raise self.error
        return self.last(x)


@pytest.mark.parametrize(
    "error", [RuntimeError("the file is gone"), NotImplementedError("on Tuesdays"), MemoryError(), KeyError("weights")]
)
def test_an_error_that_is_not_about_derivatives_is_seen_as_it_is(error) -> None:
    matrix = ss.curvature(OnceOnly(error).eval(), torch.randn(3, 2), torch.zeros(3, 2))
    with pytest.raises(type(error), match=str(error) or None) as seen:
        matrix @ np.ones(6)
    assert seen.value is error


def test_what_torch_cannot_differentiate_is_one_sentence() -> None:
    net, x = Custom().eval(), torch.randn(3, 2)
    with pytest.raises(ss.InputError, match="the generator runs, but could not be differentiated"):
        ss.log_volume(net, x)
    with pytest.raises(ss.InputError, match="the loss of the model runs, but could not be differentiated"):
        ss.curvature(net, x, torch.zeros(3, 2)) @ np.ones(sum(p.numel() for p in net.parameters()))
    move = {"last.bias": torch.ones(2)}
    surface = ss.loss_surface(net, x, torch.zeros(3, 2), move, resolution=3, loss="squared")  # needs no derivative
    assert surface.losses[1] == pytest.approx(float(net(x).detach().square().sum() / 3), rel=1e-5)
