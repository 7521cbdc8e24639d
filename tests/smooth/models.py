"""Small transformers and convolutional networks of today's shapes, written out; and the real ones, if installed."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Conv1D(nn.Module):
    """A linear layer with its weight transposed, as GPT-2 has it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / math.sqrt(inputs))
        self.bias = nn.Parameter(torch.randn(outputs) / 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class NewGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT2Block(nn.Module):
    """Pre-norm, attention written out with a causal mask, tanh form of GELU."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.c_attn, self.c_proj = Conv1D(size, 3 * size), Conv1D(size, size)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(size, 4 * size), "act": NewGELU(), "c_proj": Conv1D(4 * size, size)})
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows, tokens, size = x.shape
        q, k, v = (
            part.view(rows, tokens, self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(size, 2)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(size // self.heads)
        scores = scores.masked_fill(~torch.ones(tokens, tokens, dtype=torch.bool).tril(), -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask.bool()[:, None, None, :], torch.finfo(scores.dtype).min)
        x = x + self.drop(self.c_proj((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(rows, tokens, size)))
        return x + self.drop(self.mlp["c_proj"](self.mlp["act"](self.mlp["c_fc"](self.ln_2(x)))))


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(size) / 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaBlock(nn.Module):
    """RMS norms, rotated queries and keys, shared key-value heads, SwiGLU, fused attention."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, size // heads
        self.input_norm, self.post_norm = RMSNorm(size), RMSNorm(size)
        self.q_proj, self.o_proj = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k_proj, self.v_proj = nn.Linear(size, size // 2, bias=False), nn.Linear(size, size // 2, bias=False)
        self.gate_proj, self.up_proj = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, 3 * size, bias=False)
        self.down_proj = nn.Linear(3 * size, size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows, tokens, _ = x.shape
        h = self.input_norm(x)
        q, k, v = (
            p(h).view(rows, tokens, -1, self.width).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        angle = torch.arange(tokens, dtype=x.dtype)[:, None] * 0.3 ** torch.arange(self.width // 2, dtype=x.dtype)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        q, k = (t * cos + torch.cat([-t[..., self.width // 2 :], t[..., : self.width // 2]], -1) * sin for t in (q, k))
        seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        if mask is not None:
            seen = seen & mask.bool()[:, None, None, :] | torch.eye(tokens, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(rows, tokens, -1))
        h = self.post_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class LanguageModel(nn.Module):
    """Token ids, or embeddings by name, to logits; a mask for padding."""

    def __init__(self, block: Any, size: int = 12, heads: int = 2, layers: int = 2, vocabulary: int = 20) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, size)
        self.h = nn.ModuleList([block(size, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        x = self.wte(input_ids) if inputs_embeds is None else inputs_embeds
        for block in self.h:
            x = block(x, attention_mask)
        return self.head(self.ln_f(x))


class ConvNextBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.pwconv1, self.pwconv2 = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, 2), ConvNextBlock(6), nn.GroupNorm(2, 6), nn.Mish(), ConvNextBlock(6),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip


def embedded(model: nn.Module, x: Tensor) -> Any:
    return model(inputs_embeds=x)


def real_transformers() -> Any:
    """The package `transformers`, or a skip; a torchvision that was built for another torch is kept out of its way."""
    transformers = pytest.importorskip("transformers")
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        from transformers import utils
        from transformers.utils import import_utils

        utils.is_torchvision_available = import_utils.is_torchvision_available = lambda: False
    return transformers


def real_models(attention: str) -> dict[str, tuple[nn.Module, tuple[int, ...], Any]]:
    """Models of `transformers` from config objects, random weights: name -> (model, input shape, forward)."""
    t = real_transformers()
    torch.manual_seed(0)
    small: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
                             "intermediate_size": 40, "attn_implementation": attention}  # fmt: skip
    gpt2 = t.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=0,
                        attn_implementation=attention)  # fmt: skip
    llama = t.LlamaConfig(vocab_size=50, num_key_value_heads=2, **small)
    models = {
        "gpt2": (t.GPT2LMHeadModel(gpt2), (1, 6, 16), embedded),
        "llama": (t.LlamaForCausalLM(llama), (1, 6, 16), embedded),
        "vit": (t.ViTModel(t.ViTConfig(image_size=8, patch_size=4, **small)), (1, 3, 8, 8), lambda m, x: m(x)[0]),
    }
    for model, _, _ in models.values():
        with torch.no_grad():
            for parameter in model.parameters():  # initial weights are so small that layers do next to nothing
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return models
