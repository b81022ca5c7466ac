"""GShard Mixture-of-Experts Transformer language model: one training step (paper section 2, Figure 3).

Every other layer's feed-forward part is a mixture of 64 experts; forward, backward and an Adafactor update.
Dims: G groups (one sequence each), S tokens of a group, M model width, N heads, D head width, H hidden width, E experts,
C slots of an expert for one group, V vocabulary.
"""

import jax
import jax.numpy as jnp

import adafactor
import hlo_text
from moe_gating import moe_layer

GROUPS, SEQUENCE, MODEL, HEADS, HEAD_DIM, HIDDEN = 2048, 32, 64, 4, 16, 256
EXPERTS, VOCABULARY, LAYERS = 64, 512, 4
CAPACITY = 2  # twice the even share 2 S / (2 E) of each choice
AUX_WEIGHT = 0.01
RATE = 0.1


def parameter_shapes():
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params = {
        "embedding": f32(VOCABULARY, MODEL),
        "position": f32(SEQUENCE, MODEL),
        "norm": f32(MODEL),
        "softmax": f32(MODEL, VOCABULARY),
    }
    for k in range(LAYERS):
        attention = {name: f32(MODEL, HEADS, HEAD_DIM) for name in ("query", "key", "value")}
        attention |= {"out": f32(HEADS, HEAD_DIM, MODEL), "norm": f32(MODEL)}
        if k % 2:
            feed_forward = {
                "gate": f32(MODEL, EXPERTS),
                "wi": f32(EXPERTS, MODEL, HIDDEN),
                "wo": f32(EXPERTS, HIDDEN, MODEL),
            }
        else:
            feed_forward = {"wi": f32(MODEL, HIDDEN), "wo": f32(HIDDEN, MODEL)}
        params[f"layer{k}"] = {
            "attention": attention,
            "moe" if k % 2 else "ffn": feed_forward | {"norm": f32(MODEL)},
        }
    return params


def normalise(x, scale):
    """Root-mean-square layer normalisation."""
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, layer):
    """Causal self-attention inside each group."""
    x = normalise(x, layer["norm"])
    query = jnp.einsum("GSM,MND->GSND", x, layer["query"])
    key = jnp.einsum("GSM,MND->GSND", x, layer["key"])
    value = jnp.einsum("GSM,MND->GSND", x, layer["value"])
    logits = jnp.einsum("GSND,GTND->GNST", query, key) * HEAD_DIM**-0.5
    position = jnp.arange(SEQUENCE)
    logits = jnp.where(position[:, None] >= position[None, :], logits, -1e9)
    weights = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("GSND,NDM->GSM", jnp.einsum("GNST,GTND->GSND", weights, value), layer["out"])


def feed_forward(x, layer):
    x = normalise(x, layer["norm"])
    hidden = jax.nn.relu(jnp.einsum("GSM,MH->GSH", x, layer["wi"]))
    return jnp.einsum("GSH,HM->GSM", hidden, layer["wo"])


def loss(params, tokens, targets):
    """Summed cross-entropy plus the weighted auxiliary loss; Adafactor does not care for the gradient's scale."""
    with jax.named_scope("embed"):
        x = params["embedding"].at[tokens].get(mode="promise_in_bounds") + params["position"]
    aux_loss = 0.0
    for k in range(LAYERS):
        layer = params[f"layer{k}"]
        with jax.named_scope(f"layer{k}"):
            with jax.named_scope("attention"):
                x = x + attention(x, layer["attention"])
            if k % 2:
                with jax.named_scope("moe"):
                    y, aux = moe_layer(normalise(x, layer["moe"]["norm"]), layer["moe"], CAPACITY)
                    aux_loss += aux
            else:
                with jax.named_scope("ffn"):
                    y = feed_forward(x, layer["ffn"])
            x = x + y
    with jax.named_scope("softmax"):
        logits = jnp.einsum("GSM,MV->GSV", normalise(x, params["norm"]), params["softmax"])
        log_probability = jax.nn.log_softmax(logits, axis=-1)
        wanted = jax.nn.one_hot(targets, VOCABULARY, dtype=logits.dtype)
        cross_entropy = -jnp.sum(log_probability * wanted)
    return cross_entropy + AUX_WEIGHT * tokens.size * aux_loss, (cross_entropy, aux_loss)


def train_step(params, state, batch):
    gradient = jax.value_and_grad(loss, has_aux=True)
    (_, (cross_entropy, aux_loss)), grads = gradient(params, batch["tokens"], batch["targets"])
    with jax.named_scope("update"):
        params, state = adafactor.apply(params, grads, state, RATE)
    metrics = {"loss": cross_entropy / batch["tokens"].size, "aux_loss": aux_loss}
    return params, state, metrics


def make():
    params = parameter_shapes()
    tokens = jax.ShapeDtypeStruct((GROUPS, SEQUENCE), jnp.int32)
    args = (params, adafactor.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1))


if __name__ == "__main__":
    hlo_text.main(make, "moe_train", __doc__)
