"""Top-2 gating with a capacity (GShard paper, Algorithm 1), as a tensor program over groups.

Dims: G groups, S tokens of a group, E experts, C slots of an expert for one group, M model width.
"""

import jax
import jax.numpy as jnp

from layers import normalise


def top2_gating(x, gate_weights, capacity):
    """Combine weights [G,S,E,C], dispatch mask [G,S,E,C] and auxiliary loss, for tokens x [G,S,M].

    A token's second expert is always used where it has room (the paper draws at random), so that
    runs repeat exactly.
    """
    num_experts = gate_weights.shape[1]
    gates = jax.nn.softmax(jnp.einsum("GSM,ME->GSE", x, gate_weights), axis=-1)

    first = jnp.argmax(gates, axis=-1)
    first_mask = jax.nn.one_hot(first, num_experts, dtype=x.dtype)
    others = jax.lax.stop_gradient(gates) * (1.0 - first_mask)
    second_mask = jax.nn.one_hot(jnp.argmax(others, axis=-1), num_experts, dtype=x.dtype)
    first_gate = jnp.sum(gates * first_mask, axis=-1)
    second_gate = jnp.sum(gates * second_mask, axis=-1)
    total_gate = first_gate + second_gate

    # The share of tokens that chose an expert is not differentiable; its mean gate stands in for
    # one factor.
    density = jnp.mean(first_mask, axis=1)
    aux_loss = jnp.mean(density * jnp.mean(gates, axis=1)) * num_experts**2

    # An expert's slots fill in token order, all first choices before any second choice.
    first_slot = jnp.cumsum(first_mask, axis=1) - first_mask
    second_slot = jnp.cumsum(second_mask, axis=1) - second_mask
    second_slot += jnp.sum(first_mask, axis=1, keepdims=True)

    def weights(gate, mask, slot):
        mask = mask * (slot < capacity)
        slot = jnp.sum(slot * mask, axis=-1).astype(jnp.int32)
        slot_mask = jax.nn.one_hot(slot, capacity, dtype=x.dtype)
        return jnp.einsum("GSE,GSC->GSEC", (gate / total_gate)[..., None] * mask, slot_mask)

    combine = weights(first_gate, first_mask, first_slot)
    combine += weights(second_gate, second_mask, second_slot)
    dispatch = (combine > 0.0).astype(x.dtype)
    return combine, dispatch, aux_loss


def moe_layer(x, layer, capacity, split=lambda x, *axes: x):
    """Mixture of two-layer ReLU experts over normalised x [G,S,M]; output and auxiliary loss.

    The paper's five einsums. The two changes of the leading dim, from groups to experts and back,
    stand by themselves: with G sharded on one side and E on the other they are the all-to-alls.
    `split(x, *axes)` annotates: "group" are the axes of G, "expert" those
    of E, "rest" those of "group" that "expert" leaves, "expert_width" those of M on the
    experts' side.
    """
    x = normalise(x, layer["norm"])
    with jax.named_scope("gating"):
        combine, dispatch, aux_loss = top2_gating(x, layer["gate"], capacity)
        combine = split(combine, "group", None, None, None)
    with jax.named_scope("dispatch"):
        expert_in = split(jnp.einsum("GSM,GSEC->GECM", x, dispatch), "group", None, None, None)
    with jax.named_scope("to_experts"):
        expert_in = split(jnp.swapaxes(expert_in, 0, 1), "expert", "rest", None, "expert_width")
    with jax.named_scope("expert_in"):
        hidden = jax.nn.relu(jnp.einsum("EGCM,EMH->EGCH", expert_in, layer["wi"]))
    with jax.named_scope("expert_out"):
        expert_out = jnp.einsum("EHM,EGCH->EGCM", layer["wo"], hidden)
        expert_out = split(expert_out, "expert", "rest", None, "expert_width")
    with jax.named_scope("to_groups"):
        expert_out = split(jnp.swapaxes(expert_out, 0, 1), "group", None, None, None)
    with jax.named_scope("combine"):
        return jnp.einsum("GSEC,GECM->GSM", combine, expert_out), aux_loss
