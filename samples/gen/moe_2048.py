"""One GShard Mixture-of-Experts layer, forward, with as many experts as a 2048-core mesh has cores.

2048 experts, 2048 groups of 16 tokens: on 2048 cores each gates one group and holds one expert.
Dims: G groups, S tokens of a group, M model width, H hidden width, E experts, C slots of an expert
for one group.
"""

import jax
import jax.numpy as jnp

import hlo_text
from moe_gating import moe_layer

GROUPS, SEQUENCE, MODEL, HIDDEN, EXPERTS = 2048, 16, 32, 64, 2048
CAPACITY = 1


def forward(params, x):
    """x [G,S,M] plus the mixture's output, and the auxiliary loss."""
    with jax.named_scope("moe"):
        y, aux_loss = moe_layer(x, params, CAPACITY)
    return x + y, aux_loss


def make():
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params = {
        "norm": f32(MODEL),
        "gate": f32(MODEL, EXPERTS),
        "wi": f32(EXPERTS, MODEL, HIDDEN),
        "wo": f32(EXPERTS, HIDDEN, MODEL),
    }
    return hlo_text.to_text(forward, (params, f32(GROUPS, SEQUENCE, MODEL)), __doc__)


if __name__ == "__main__":
    hlo_text.main(make, "moe_2048", __doc__)
