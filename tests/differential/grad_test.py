"""`gshard-opt grad` against JAX's own gradients: the numbers, and the work.

For each loss of grad_losses.py (and grad_models.py: library programs from PyPI, where they are installed) the forward
HLO that JAX prints is differentiated; XLA runs the result, which shows that it takes it, and gradients must agree with
jax.grad's to 1e-5 of their largest element. FLOPs of both programs, after dead-code and cse, are those of gshard-cost: at
most 1.05 of JAX's for every loss of dots or convolutions, and in the median.

    grad_test.py [--only REGEX] [--work]       --work prints the ratios
"""
import argparse
import json
import re
import subprocess

import numpy as np

import xla
from tally import Tally

TOLERANCE = 1e-5
# f32 arithmetic of another order: decompositions lose digits, and products of many factors.
LOOSE = {"eigh": 2e-4, "svd": 1e-4, "qr": 1e-4, "determinant": 5e-5, "solve": 5e-5, "cholesky": 5e-5, "mixed_precision": 1e-2}
MOST_WORK = 1.05


def tool(name, *arguments, text):
    run = subprocess.run([name, *arguments], input=text, capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(arguments)}: exit {run.returncode}: {run.stderr.strip()[:500]}")
    return run.stdout


def flops(text):
    clean = tool("gshard-opt", "optimize", "-", "--passes", "dead-code,cse,dead-code", text=text)
    cost = json.loads(tool("gshard-cost", "-", "--json", text=clean))
    return cost["flops_per_device"]


def relative_error(expected, actual):
    expected, actual = np.asarray(expected, np.complex128), np.asarray(actual, np.complex128)
    scale = np.max(np.abs(expected), initial=0.0)
    return np.max(np.abs(expected - actual), initial=0.0) / max(scale, 1e-20)


def check(name, function, arguments, heavy, flags=()):
    """(problem or None, ratio of the work)."""
    import jax
    floating = [i for i, x in enumerate(jax.tree.leaves(arguments)) if np.asarray(x).dtype.kind in "fcV"]
    leaves, tree = jax.tree.flatten(arguments)

    def of_leaves(*values):
        return function(*jax.tree.unflatten(tree, values))

    text = jax.jit(of_leaves, keep_unused=True).lower(*leaves).as_text("hlo")
    gradient = jax.value_and_grad(of_leaves, argnums=tuple(floating))
    reference = jax.jit(gradient, keep_unused=True)
    ours = tool("gshard-opt", "grad", "-", *flags, text=text)
    value, expected = reference(*leaves)
    actual = xla.run(ours, [np.asarray(x) for x in leaves])
    allowed = LOOSE.get(name, TOLERANCE)
    if relative_error(value, actual[0]) > allowed:
        return f"the loss is {actual[0]}, JAX has {value}", None
    largest = max(np.max(np.abs(np.asarray(want, np.complex128)), initial=0.0) for want in expected)
    for i, (want, got) in enumerate(zip(expected, actual[1:], strict=True)):
        error = relative_error(want, got)
        # Zero but for rounding, as of a bias that a softmax does not see: all that can be asked is that ours is, too.
        if max(np.max(np.abs(np.asarray(x, np.complex128)), initial=0.0) for x in (want, got)) < 1e-6 * largest:
            error = 0.0
        if not error <= allowed:
            return f"gradient {i} differs by {error:.2e}", None
    ratio = flops(ours) / max(flops(reference.lower(*leaves).as_text("hlo")), 1.0)
    if heavy and not flags and ratio > MOST_WORK:
        return f"{ratio:.3f} times the work of JAX's gradient", ratio
    return None, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--work", action="store_true")
    options = parser.parse_args()
    from grad_losses import LOSSES
    losses = list(LOSSES)
    try:
        from grad_models import MODELS
        losses += MODELS
    except ImportError as error:
        print(f"library programs are left out: {error}")
    tally = Tally()
    ratios = {}
    for name, function, arguments, heavy in losses:
        if not re.search(options.only, name):
            continue
        try:
            problem, ratio = check(name, function, arguments, heavy)
        except Exception as error:  # of XLA, of the tools: told by the name of the loss
            problem, ratio = f"{type(error).__name__}: {str(error)[:600]}", None
        tally.check(name, problem)
        if ratio is not None:
            ratios[name] = ratio
        if ratio is not None and options.work:
            print(f"{name:<28}{ratio:8.3f}")
    if ratios and not options.only:
        median = float(np.median(list(ratios.values())))
        print(f"work against JAX's gradients: median {median:.3f}, largest {max(ratios.values()):.3f}")
        tally.check("median work", "" if median <= MOST_WORK else f"{median:.3f}")
    tally.finish()


if __name__ == "__main__":
    main()
