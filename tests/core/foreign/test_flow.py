# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.core.foreign.dumps import called, flow, only, step

PARAMETERS = {
    f"{module}.{name}"
    for module, names in {
        "embed": ("weight",),
        "block.norm": ("weight", "bias"),
        "block.mix": ("weight", "bias"),
        "block.out": ("weight", "bias"),
        "head": ("weight", "bias"),
    }.items()
    for name in names
}


def test_the_edges_of_the_known_program_are_found() -> None:
    linear, add = "Functional.linear.{}.forward", "Tensor.__add__.0.forward"
    expected = {
        ("Functional.embedding.0.forward", "Functional.layer_norm.0.forward"),
        ("Functional.layer_norm.0.forward", linear.format(0)),
        ("unrecorded", "Torch.sigmoid.0.forward"),
        ("unrecorded", "Tensor.__mul__.0.forward"),
        ("Torch.sigmoid.0.forward", "Tensor.__mul__.0.forward"),
        ("Tensor.__mul__.0.forward", linear.format(1)),
        ("Functional.embedding.0.forward", add),
        (linear.format(1), add),
        (add, linear.format(2)),
        (linear.format(2), "Functional.cross_entropy.0.forward"),
    }
    assert expected <= flow(step("functions"))


def test_functions_and_mixed_dumps_give_the_same_flow() -> None:
    def between_calls(name: str) -> set[tuple[str, str]]:
        return {e for e in flow(step(name)) if not e[0].startswith("parameter:")}

    assert between_calls("functions") == between_calls("ranks")


def test_halves_of_a_chunk_come_from_the_result_that_was_cut() -> None:
    trace = step("functions")
    parts = [s for s in trace.sites if s.op == "unrecorded" and s.phase == "forward"]
    assert [s.effect for s in parts] == ["move", "move"]
    makers = [called(trace.sites[p]) for s in parts for p in s.parents]
    assert makers == ["Functional.linear.0.forward"] * 2


def test_every_parameter_has_its_gradient_whatever_the_level() -> None:
    for name in ("modules", "ranks"):
        trace = step(name)
        kept = {s.op for s in trace.sites if s.role == "gradient"}
        assert kept == {f"gradient:{p}" for p in PARAMETERS}


def test_every_updated_parameter_is_kept() -> None:
    trace = step("ranks")
    kept = [s for s in trace.sites if s.kind == "kept" and s.phase == "optimizer"]
    assert {s.op for s in kept} == {f"parameter:{p}" for p in PARAMETERS}


def test_updates_read_the_parameter_and_its_own_gradient() -> None:
    trace = step("ranks", 1)
    for kept in (s for s in trace.sites if s.phase == "optimizer" and s.kind == "kept"):
        name = kept.op.removeprefix("parameter:")
        update = trace.sites[kept.parents[0]]
        read = [trace.sites[p].op for p in update.parents]
        assert read == [f"parameter:{name}", f"gradient:{name}"]


def test_gradients_flow_against_the_forward_edges() -> None:
    trace = step("root")
    root = only(trace, "Torch.sqrt", "backward")
    relu = only(trace, "Torch.relu", "backward")
    assert trace.sites[root.parents[0]].op == "Tensor.sum"
    assert relu.parents[0] == root.index


def test_edges_point_backwards_in_execution_order() -> None:
    for name in ("functions", "modules", "ranks", "values"):
        for site in step(name).sites:
            assert all(parent < site.index for parent in site.parents)


def test_modules_give_scope_and_class() -> None:
    site = only(step("ranks"), "Functional.layer_norm")
    assert (site.scope, site.scope_type) == ("block.norm", "LayerNorm")


def test_the_loss_of_each_step_is_an_event() -> None:
    (first,) = step("functions").events
    held = step("functions")
    loss = only(held, "loss")
    assert first.name == "loss"
    assert first.value == held.at(0).summaries[loss.index].low
