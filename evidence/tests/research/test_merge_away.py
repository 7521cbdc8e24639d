"""Batch norm merged away in the middle of training: the function stays, the optimizer goes on."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization.merge_copy import ScaleShift
from splinescope_research import MergeAway, merge_batchnorm_

from .merging import network, train


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_the_function_stays_and_the_optimizer_trains_on(bias, kind):
    net = network(bias)
    optimizer = kind(net.parameters(), lr=1e-2)
    train(net, optimizer, 30)
    weight, x = net[0].weight, torch.randn(50, 3)
    with torch.no_grad():
        before = net.eval()(x)
        net.train()
    changed = merge_batchnorm_(net, optimizer=optimizer)
    assert changed == ("0", "3")
    assert net.training
    assert net[0].weight is weight
    assert not any(isinstance(m, nn.BatchNorm1d) for m in net.modules())
    with torch.no_grad():
        torch.testing.assert_close(net(x), before, atol=1e-5, rtol=1e-5)  # in training mode too: nothing mixes rows now
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in net.parameters()}
    assert all(p not in optimizer.state for p in (net[0].weight, net[3].weight))
    losses = train(net, optimizer, 60)
    assert not torch.equal(net(x), before)
    assert sum(losses[-10:]) < sum(losses[:10])


def test_an_optimizer_of_another_model_is_refused_before_anything_changes():
    net = network()
    with pytest.raises(ss.InputError, match="none of its parameters"):
        merge_batchnorm_(net, optimizer=torch.optim.SGD(network().parameters(), 0.1))
    assert isinstance(net[1], nn.BatchNorm1d)


def test_it_is_merged_with_the_statistics_of_data_if_they_are_given():
    net, x = network(), torch.randn(40, 3)
    with torch.no_grad():
        wanted = ss.normalization.with_statistics(net, x)(x)
    merge_batchnorm_(net, statistics=x)
    torch.testing.assert_close(net(x), wanted, atol=1e-5, rtol=1e-5)


def sequences() -> tuple[nn.Sequential, torch.Tensor]:
    """Batch norm whose channels are as many as the features of the layer before it, and another axis."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    return net, 3 * torch.randn(64, 8, 8) + torch.arange(8)[:, None]


def trained_on(net: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Outputs in evaluation mode after a few steps of training."""
    for _ in range(5):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        before = net.eval()(x)
    net.train()
    return before


def test_the_function_stays_where_norms_act_on_sequences():
    net, x = sequences()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    schedule = MergeAway(net, optimizer, at=5, x=x)
    before = trained_on(net, x, optimizer)
    assert schedule.step(5)
    assert net.training
    assert not any(isinstance(m, nn.BatchNorm1d) for m in net.modules())
    torch.testing.assert_close(net(x), before, atol=1e-5, rtol=1e-5)


class Looks(nn.Module):
    """A forward that looks at its norm."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.reads, self.lin, self.norm = reads, nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.norm.weight.mean() if self.reads else 1 + isinstance(self.norm, nn.BatchNorm1d)
        return self.norm(self.lin(x)) * factor


@pytest.mark.parametrize(("reads", "words"), [(False, "changed what the model computes"), (True, "no longer runs")])
def test_all_is_put_back_if_the_function_would_not_stay(reads, words):
    torch.manual_seed(0)
    net, x = Looks(reads), torch.randn(20, 3)
    names = list(net.named_parameters())
    optimizer = torch.optim.Adam(names, 1e-2)
    schedule = MergeAway(net, optimizer, at=5, statistics=lambda: x)
    before = trained_on(net, x, optimizer)
    state, memory = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ss.UnsupportedModelError, match=rf"{words}.*as they were.*MergeAway\(model.part"):
        schedule.step(5)
    assert schedule.merged_at is None
    assert net.lin.bias is None
    assert [(n, id(p)) for n, p in net.named_parameters()] == [(n, id(p)) for n, p in names]
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for _, p in names]
    assert all(torch.equal(net.state_dict()[key], value) for key, value in state.items())
    assert str(optimizer.state_dict()) == str(memory)
    torch.testing.assert_close(net.eval()(x), before)


def test_a_norm_with_two_names_is_merged_under_both():
    norm = nn.BatchNorm1d(3)
    norm.running_mean += 1
    net = nn.Sequential(norm, nn.Linear(3, 3), norm).eval()
    x = torch.randn(5, 3)
    before = net(x)
    merge_batchnorm_(net, x=x)
    assert net[0] is net[2]
    assert not any(isinstance(m, nn.BatchNorm1d) for m in net.modules())
    torch.testing.assert_close(net(x), before)


@pytest.mark.parametrize("why", ["frozen", "not held"])
def test_what_is_new_joins_the_optimizer_only_if_what_it_comes_from_was_trained(why):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(3, affine=False)
    net = nn.Sequential(
        *(norm, nn.ReLU(), nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU()),
        *(nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.BatchNorm1d(5)),
    )
    first, second, last = net[2].weight, net[5].weight, net[8]
    kept = [first] if why == "frozen" else []
    first.requires_grad_(why == "not held")
    optimizer = torch.optim.SGD([{"params": p} for p in ([last.weight, *kept], [second], [last.bias])], 0.1)
    merge_batchnorm_(net, optimizer=optimizer)
    held = [[id(p) for p in group["params"]] for group in optimizer.param_groups]
    assert held == [[*map(id, kept), id(net[8].scale)], [id(second), id(net[5].bias)], [id(net[8].shift)]]
    assert net[2].bias.requires_grad is (why == "not held")
    assert not any(p.requires_grad for p in net[0].parameters())  # it was not trained before either


def test_names_of_parameters_stay_beside_them_in_the_optimizer():
    net = network(bias=False)
    optimizer = torch.optim.Adam(net.named_parameters())
    if "param_names" not in optimizer.param_groups[0]:
        pytest.skip("this torch keeps no names")
    merge_batchnorm_(net, optimizer=optimizer)
    (group,) = optimizer.param_groups
    assert {name: id(p) for name, p in zip(group["param_names"], group["params"], strict=True)} == {
        name: id(p) for name, p in net.named_parameters()
    }


def test_data_to_merge_with_may_come_from_a_function_and_must_be_some():
    net, x = network(), torch.randn(40, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for found, words in ((None, "returns None"), (x[:0], "at least 2 rows .* got 0"), (x[:1], "got 1")):
        with pytest.raises(ss.InputError, match=f"statistics must .*{words}"):
            MergeAway(net, optimizer, at=0, statistics=lambda found=found: found).step(0)
    with pytest.raises(ss.InputError, match=r"optimizer must .* got NoneType"):
        MergeAway(net, lambda: None, at=0, x=x).step(0)
    with torch.no_grad():
        wanted = ss.normalization.with_statistics(net, x)(x)
    MergeAway(net, optimizer, at=0, statistics=lambda: x).step(0)
    torch.testing.assert_close(net(x), wanted, atol=1e-5, rtol=1e-5)


class Branches(nn.Module):
    """A forward that branches, takes a name or two and returns a dict, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network(bias=False)

    def forward(self, pixels: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        if bool((pixels.sum() > 1e9).any()):
            raise ValueError("too bright")
        out = {"logits": self.net(pixels)}
        return out if labels is None else {"loss": (out["logits"] - labels).square().mean(), **out}


def test_a_forward_that_branches_is_merged_on_rows_given():
    model, x = Branches(), torch.randn(32, 3)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    schedule = MergeAway(model, optimizer, at=4, x=x, forward=lambda m, x: m(pixels=x))
    for step in range(6):
        with torch.no_grad():
            before = model.eval()(x)["logits"]
        model.train()
        if schedule.step(step):
            torch.testing.assert_close(model(x)["logits"], before, atol=1e-5, rtol=1e-5)
            assert model.net[0].bias is not None  # merged into its neighbors
            assert not any(isinstance(m, (nn.BatchNorm1d, ScaleShift)) for m in model.modules())
        optimizer.zero_grad()
        model(pixels=x, labels=x[:, :2])["loss"].backward()
        optimizer.step()
    assert schedule.merged_at == 4


def test_nothing_is_merged_that_cannot_be_compared():
    net = network()
    with pytest.raises(ss.InputError, match="give x=, rows of input"):
        MergeAway(net, torch.optim.SGD(net.parameters(), 0.1), at=0)


def test_a_model_that_is_not_readable_is_told_what_works():
    with pytest.raises(ss.UnsupportedModelError, match=r"With x=, rows of input, and forward="):
        merge_batchnorm_(Branches())


def test_an_averaged_copy_is_merged_beside_the_model_and_follows_it_on():
    net, x = network(bias=False), torch.randn(32, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    averaged = torch.optim.swa_utils.AveragedModel(net, use_buffers=True)
    with pytest.raises(ss.InputError, match=r"averaged copy .* merge_batchnorm_\(copy, x=x\)"):
        MergeAway(averaged, optimizer, at=1)
    train(net, optimizer, 5)
    averaged.update_parameters(net)
    before = averaged.eval()(x)
    merge_batchnorm_(net, optimizer=optimizer, x=x)
    merge_batchnorm_(averaged, x=x)
    torch.testing.assert_close(averaged(x), before, atol=1e-5, rtol=1e-5)
    train(net, optimizer, 5)
    averaged.update_parameters(net)
    assert not torch.equal(averaged(x), before)


def test_what_cannot_be_merged_is_told_before_training():
    net, x = Looks(False), torch.randn(20, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ss.UnsupportedModelError, match="changed what the model computes"):
        MergeAway(net, optimizer, at=1000, x=x)
    assert isinstance(net.norm, nn.BatchNorm1d)
    with pytest.raises(ss.InputError, match="give forward="):
        MergeAway(net, optimizer, at=1000, x=torch.randn(20, 5))
    plain = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ss.InputError, match="found none"):
        MergeAway(plain, torch.optim.SGD(plain.parameters(), 0.1), at=1000)
    untold = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False))
    with pytest.raises(ss.InputError, match=r"statistics must .* since 1 keeps no running averages"):
        MergeAway(untold, torch.optim.SGD(untold.parameters(), 0.1), at=1000)
    schedule = MergeAway(untold, torch.optim.SGD(untold.parameters(), 0.1), at=0, x=x, statistics=x)
    wanted = ss.normalization.with_statistics(untold, x)(x)
    schedule.step(0)
    torch.testing.assert_close(untold(x), wanted, atol=1e-5, rtol=1e-5)
