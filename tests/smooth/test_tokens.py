"""Tokens among the folds: equal to a plain reimplementation, with padding, windows and streams that change nothing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope import InputError, UnsupportedModelError
from splinescope.smooth._held_values import attention_weights
from splinescope.smooth._reader import attend
from splinescope.train import At

from .models import GPT2Block, LanguageModel, LlamaBlock, real_models

ARRAYS = ("active", "nearest", "folds", "mean", "std", "norm_mean", "norm_rms")
FUSED = F.scaled_dot_product_attention


def model_of(block, **options) -> LanguageModel:
    torch.manual_seed(1)
    return LanguageModel(block, **options).eval()


@pytest.mark.parametrize("kind", ["none", "causal", "shared", "per row", "keys alone", "added", "blind"])
def test_attention_with_its_weights_read_is_the_fused_one(kind):
    """150 queries: more than are worked on together."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 150, 3, 8).transpose(1, 2) for _ in range(3))
    shared = torch.ones(150, 150, dtype=torch.bool).tril()
    rows = torch.rand(2, 1, 150, 150) < 0.3
    mask = {
        "shared": shared, "per row": rows | torch.eye(150, dtype=torch.bool), "keys alone": rows[:, :, :1],
        "added": torch.randn(2, 3, 150, 150).masked_fill(~shared, -torch.inf),
        "blind": rows & (torch.arange(150) > 80)[:, None],
    }.get(kind)  # fmt: skip
    result, squares = attend(q, k, v, mask, kind == "causal", None)
    expected = FUSED(q, k, v, attn_mask=mask, is_causal=kind == "causal")
    assert torch.allclose(result, expected.nan_to_num(0.0), atol=1e-5)
    weights = attention_weights(q, k, mask, kind == "causal", None)
    assert torch.allclose(squares, weights.square().sum(-1), atol=1e-6)


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(0, 20, (3, 9), generator=torch.Generator().manual_seed(0))


def plainly(model: LanguageModel, ids: torch.Tensor, radius: float) -> dict[str, list[np.ndarray]]:
    """The same numbers, layer by layer and written out in numpy, from what the blocks' own parts return."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*ARRAYS, "attention")}
    h = model.wte(ids)
    for block in model.h:
        gpt2 = isinstance(block, GPT2Block)
        first, second = (block.ln_1, block.ln_2) if gpt2 else (block.input_norm, block.post_norm)
        weights: list[tuple[torch.Tensor, torch.Tensor]] = []
        if gpt2:
            q, k, _ = (t.unflatten(-1, (block.heads, -1)).transpose(1, 2) for t in block.c_attn(first(h)).chunk(3, -1))
        else:  # queries and keys are rotated inside: take them where they are used

            def spy(q, k, v, attn_mask, enable_gqa, kept=weights):
                kept.append((q, k.repeat_interleave(2, 1) if k.shape[1] < q.shape[1] else k))
                return FUSED(q, k, v, attn_mask=attn_mask, enable_gqa=enable_gqa)

            F.scaled_dot_product_attention = spy
        entering = []
        handle = second.register_forward_pre_hook(lambda m, a, seen=entering: seen.append(a[0]))
        out = block(h)
        handle.remove()
        F.scaled_dot_product_attention = FUSED
        q, k = (q, k) if gpt2 else weights[0]
        scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -torch.inf)
        found["attention"].append((1 / scores.softmax(-1).square().sum(-1)).numpy())
        for x in (h, entering[0]):
            found["norm_mean"].append(x.double().mean(-1).numpy())
            found["norm_rms"].append(x.double().square().mean(-1).sqrt().numpy())
        layer = block.mlp["c_fc"] if gpt2 else block.gate_proj
        w = (layer.weight if gpt2 else layer.weight.T).double().numpy()
        d = layer(second(entering[0])).double().numpy() / np.linalg.norm(w, axis=0)
        found["active"].append((d > 0).mean(-1))
        found["nearest"].append(np.abs(d).min(-1))
        found["folds"].append((np.abs(d) <= radius).sum(-1))
        found["mean"].append(d.mean(-1))
        found["std"].append(d.std(-1))
        h = out
    found["norm_mean"].append(h.double().mean(-1).numpy())
    found["norm_rms"].append(h.double().square().mean(-1).sqrt().numpy())
    return found


@pytest.mark.parametrize("block", [GPT2Block, LlamaBlock])
def test_it_equals_a_plain_reimplementation(block, ids):
    model = model_of(block)
    found = ss.token_geometry(model, ids, radius=0.2)
    with torch.no_grad():
        plain = plainly(model, ids, 0.2)
    for name in ARRAYS:
        assert np.allclose(getattr(found, name), plain[name], rtol=1e-4, atol=1e-5), name
    assert np.allclose(np.stack(found.attention), plain["attention"], rtol=1e-4)
    assert found.layers == tuple(f"h.{i}.{'mlp.c_fc' if block is GPT2Block else 'gate_proj'}" for i in range(2))
    a, n = (np.array(plain[name]) for name in ("active", "nearest"))
    seven = [a.mean(-1), a.min(-1), a.max(-1), a.std(-1, ddof=1), n.min(-1), n.mean(-1), n.std(-1, ddof=1)]
    assert np.allclose(found.features(), np.stack(seven, -1).transpose(1, 0, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("block", "side"), [(GPT2Block, "left"), (GPT2Block, "right"), (LlamaBlock, "right")])
def test_padding_on_either_side_changes_nothing(block, side, ids):
    model = model_of(block)
    whole = ss.token_geometry(model, ids[:, :6])
    padding = torch.full((3, 3), 7)
    real, fake = torch.ones(3, 6, dtype=torch.long), torch.zeros(3, 3, dtype=torch.long)
    order = (lambda a, b: [a, b]) if side == "right" else (lambda a, b: [b, a])
    batch = {"input_ids": torch.cat(order(ids[:, :6], padding), 1), "attention_mask": torch.cat(order(real, fake), 1)}
    found = ss.token_geometry(model, batch)
    kept = batch["attention_mask"][0].bool().numpy()
    for name in ARRAYS:
        assert np.allclose(getattr(found, name)[..., kept], getattr(whole, name), rtol=1e-4, atol=1e-5), name
        assert np.isnan(getattr(found, name)[..., ~kept]).all(), name
    assert np.allclose(found.attention[0][..., kept], whole.attention[0], rtol=1e-4)
    assert np.allclose(found.features(), whole.features(), rtol=1e-4, atol=1e-6)
    assert found.mask.sum() == 18


def test_streams_and_windows_are_their_pieces(ids):
    model = model_of(GPT2Block)
    stream = ss.token_geometry(model, (batch for batch in (ids[:2], ids[2:, :5])))
    assert stream.active.shape == (2, 3, 9)
    assert stream.attention[0].shape == (3, 2, 9)
    assert np.allclose(stream.nearest[:, :2], ss.token_geometry(model, ids[:2]).nearest)
    assert np.allclose(stream.attention[0][2:, :, :5], ss.token_geometry(model, ids[2:, :5]).attention[0])
    assert np.isnan(stream.nearest[:, 2, 5:]).all()
    cut = ss.token_geometry(model, ids, window=4)
    assert cut.active.shape == (2, 3, 9)
    assert np.allclose(cut.nearest[:, :, 4:8], ss.token_geometry(model, ids[:, 4:8]).nearest)


def test_a_mapping_is_cut_as_its_ids_are(ids):
    model = model_of(GPT2Block)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    cut = ss.token_geometry(model, {"input_ids": ids, "attention_mask": mask}, window=4)
    piece = ss.token_geometry(model, {"input_ids": ids[:, 4:8], "attention_mask": mask[:, 4:8]})
    assert np.array_equal(cut.mask, mask.numpy().astype(bool))
    assert np.allclose(cut.nearest[:, :, 4:8], piece.nearest)
    with pytest.raises(InputError, match=r"'labels' has shape \(3,\)"):
        ss.token_geometry(model, {"input_ids": ids, "labels": torch.zeros(3)}, window=4)


def same(one, other):
    return np.array_equal(one.nearest, other.nearest, equal_nan=True) and np.array_equal(
        one.attention[0], other.attention[0], equal_nan=True
    )


def test_a_mask_reaches_the_model(ids):
    model = model_of(GPT2Block)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0  # on the left, where causal tokens would see it
    expected = ss.token_geometry(model, {"input_ids": ids, "attention_mask": mask})
    assert same(ss.token_geometry(model, ids, mask=mask), expected)
    assert same(ss.token_geometry(model, {"input_ids": ids}, mask=mask.bool()), expected)
    by_hand = ss.token_geometry(model, ids, mask=mask, forward=lambda m, b: m(b))
    assert not np.allclose(by_hand.nearest[:, 1, 4:], expected.nearest[:, 1, 4:])


def test_a_mask_reaches_a_torch_encoder_turned_round():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, mask = torch.randn(2, 5, 8), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    found = ss.token_geometry(model, x, mask=mask)
    alone = ss.token_geometry(model, x[:1, :3])
    assert np.allclose(found.nearest[:, :1, :3], alone.nearest, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite_and_near(dtype, ids):
    model = model_of(LlamaBlock)
    exact = ss.token_geometry(model, ids)
    half = ss.token_geometry(model.to(dtype), ids)
    assert all(np.isfinite(getattr(half, name)).all() for name in ARRAYS)
    assert np.abs(half.active - exact.active).mean() < 0.05
    assert np.allclose(half.norm_rms, exact.norm_rms, rtol=0.1)


def test_gates_by_name_and_plain_modules():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
    x = torch.randn(2, 5, 8)
    found = ss.token_geometry(model.eval(), x)
    assert found.layers == ("layers.0.linear1", "layers.1.linear1")
    assert [heads.shape for heads in found.attention] == [(2, 2, 5)] * 2
    named = ss.token_geometry(model, x, gates=["layers.1.linear1"])
    assert np.allclose(named.nearest[0], found.nearest[1])


def test_a_fused_gate_is_read_from_its_half():
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate_up, self.down = nn.Linear(6, 20), nn.Linear(10, 6)

        def forward(self, x):
            up, gate = self.gate_up(x).chunk(2, -1)
            return self.down(F.silu(gate) * up)

    model, x = Fused().eval(), torch.randn(2, 3, 6)
    found = ss.token_geometry(model, x)
    gate = model.gate_up(x)[..., 10:] / model.gate_up.weight[10:].norm(dim=1)
    assert np.allclose(found.nearest[0], gate.detach().abs().amin(-1), rtol=1e-5)


def test_nothing_is_left_behind(ids):
    model = model_of(GPT2Block)
    state = torch.get_rng_state()
    ss.token_geometry(model, ids)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda m, ids: ss.token_geometry(m.train(), ids), UnsupportedModelError, "eval"),
    (lambda m, ids: ss.token_geometry(m, ids, mask=torch.zeros(3, 9)), InputError, "at least one token in every row"),
    (lambda m, ids: ss.token_geometry(m, ids, mask=torch.ones(3, 8)), InputError, r"shape \(3, 9\)"),
    (lambda m, ids: ss.token_geometry(m, ids, mask=[torch.ones(3, 9)]), InputError, "mask must be an array"),
    (lambda m, ids: ss.token_geometry(m, {"input_ids": ids, "attention_mask": ids > -1}, mask=ids > -1), InputError,
     "give one of them"),
    (lambda m, ids: ss.token_geometry(m, {}), InputError, "non-empty tensors"),
    (lambda m, ids: ss.token_geometry(m, []), InputError, "at least one batch"),
    (lambda m, ids: ss.token_geometry(m, ids, gates=["h.0.mlp.fc"]), InputError, "h.0.mlp.c_fc"),
    (lambda m, ids: ss.token_geometry(m, ids.float()), InputError, "must run on x"),
    (lambda m, ids: ss.token_geometry(nn.Linear(2, 2), torch.ones(1, 2)), UnsupportedModelError, "gates="),
    (lambda m, ids: ss.token_geometry(m, ids, radius=0), InputError, "radius"),
])  # fmt: skip
def test_bad_input_is_named(change, error, message, ids):
    with pytest.raises(error, match=message):
        change(model_of(GPT2Block), ids)


def test_a_monitor_records_the_tokens(ids):
    model = model_of(GPT2Block).train()
    monitor = ss.ComplexityMonitor(
        model, model.wte(ids).detach(), radius=0.05, directions=2, schedule=At([0]),
        forward=lambda m, e: m(inputs_embeds=e),
        metrics={"tokens": lambda m: ss.token_geometry(m, ids), "one": lambda m: torch.tensor(1.0)},
        budget=None,
    )  # fmt: skip
    record = monitor.step(0)
    assert record["one"] == 1.0
    expected = ss.token_geometry(model.eval(), ids).means()
    assert record["tokens/nearest/0 h.0.mlp.c_fc"] == pytest.approx(expected["nearest/0 h.0.mlp.c_fc"])
    drawn = [line.get_label() for line in monitor.plot(["tokens/nearest", "one"]).get_lines()]
    assert drawn == ["tokens/nearest/0 h.0.mlp.c_fc", "tokens/nearest/1 h.1.mlp.c_fc", "one"]
    with pytest.raises(InputError, match="got tokens/near"):
        monitor.plot(["tokens/near"])


def test_the_heat_map_is_labeled(ids):
    ax = ss.token_geometry(model_of(GPT2Block), ids).plot("folds", row=1, tokens=list("abcdef ij"))
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abcdef␣ij")
    assert ax.get_ylabel() == "layer"
    long = ss.token_geometry(model_of(GPT2Block), ids[:1].repeat(1, 12)).plot(tokens=list("abcdefghi" * 12))
    assert long.get_xlabel() == "token"
    assert all(not label.get_text().isalpha() for label in long.get_xticklabels())
    with pytest.raises(InputError, match="9 labels"):
        ss.token_geometry(model_of(GPT2Block), ids).plot(tokens=["a"])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_real_transformers_are_read(attention):
    models = real_models(attention)
    ids = torch.randint(0, 50, (2, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    for name, layer in (("gpt2", "transformer.h.1.mlp.c_fc"), ("llama", "model.layers.1.mlp.gate_proj")):
        model = models[name][0].eval()
        found = ss.token_geometry(model, {"input_ids": ids, "attention_mask": mask})
        assert found.layers[1] == layer
        assert len(found.heads) == 2
        assert found.mask.sum() == 10
        assert (found.attention[0][0] <= np.arange(1, 7) + 1e-4).all()  # causal: token t sees at most t + 1
        assert found.attention[1][0, :, 0] == pytest.approx(1.0, rel=1e-5)
