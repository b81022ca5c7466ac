"""Linear algebra as JAX prints it for CPUs, TPUs and GPUs, on the emulator: JAX's own numbers on the CPU.

Each function is lowered for each platform: LAPACK's calls on CPUs, XLA's Qr, Eigh and LuDecomposition on TPUs, cuSOLVER's and
hipSOLVER's on GPUs. Vectors may have the other sign. Losses are differentiated by `gshard-opt grad` and compared with jax.grad.

    linalg_test.py [--only REGEX]
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tally import Tally

PLATFORMS = ("cpu", "tpu", "cuda", "rocm")
TOLERANCE = 2e-3  # of f32 through spectra and inverses
RANDOM = np.random.default_rng(0)


def normal(*dims):
    return RANDOM.normal(size=dims).astype("f4")


def complex_normal(*dims):
    return (normal(*dims) + 1j * normal(*dims)).astype("c8")


def symmetric(x):
    return x + np.swapaxes(x.conj(), -1, -2)


def strong(*dims):
    """With a diagonal that makes it far from singular."""
    return normal(*dims) + 3 * np.eye(dims[-1], dtype="f4")


POSITIVE = (lambda x: (x @ x.T + 5 * np.eye(5)).astype("f4"))(normal(5, 5))

FUNCTIONS = {
    "qr": (jnp.linalg.qr, normal(2, 6, 4)),
    "qr, complete": (lambda x: jnp.linalg.qr(x, mode="complete"), normal(6, 4)),
    "qr, wide": (jnp.linalg.qr, normal(4, 6)),
    "qr, complex": (jnp.linalg.qr, complex_normal(5, 4)),
    "eigh": (jnp.linalg.eigh, symmetric(normal(2, 5, 5))),
    "eigh of the upper triangle": (lambda x: jnp.linalg.eigh(x, UPLO="U", symmetrize_input=False), normal(5, 5)),
    "eigh, complex": (jnp.linalg.eigh, symmetric(complex_normal(4, 4))),
    "lu": (lax.linalg.lu, normal(2, 6, 6)),
    "lu, tall": (lax.linalg.lu, normal(6, 4)),
    "lu, wide": (lax.linalg.lu, normal(4, 6)),
    "solve": (lambda x: jnp.linalg.solve(x, x[:, :, :2]), strong(2, 5, 5)),
    "inverse": (jnp.linalg.inv, strong(5, 5)),
    "logarithm of the determinant": (jnp.linalg.slogdet, normal(5, 5)),
    "svd": (jnp.linalg.svd, normal(2, 5, 3)),
    "svd, wide": (lambda x: jnp.linalg.svd(x, full_matrices=False), normal(3, 5)),
    "svd, complex": (jnp.linalg.svd, complex_normal(4, 3)),
    "svd of many columns": (lambda x: jnp.linalg.svd(x, full_matrices=False), normal(30, 1100)),
    "svd of many rows": (lambda x: jnp.linalg.svd(x, full_matrices=False), normal(1100, 30)),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), normal(2, 5, 3)),
    "singular values of many rows": (lambda x: jnp.linalg.svd(x, compute_uv=False), normal(2, 1100, 20)),
    "pseudo-inverse": (jnp.linalg.pinv, normal(5, 3)),
    "cholesky": (jnp.linalg.cholesky, POSITIVE),
    "tridiagonal solve": (lambda x: lax.linalg.tridiagonal_solve(x[:, 0], x[:, 1] + 4, x[:, 2], x), normal(6, 6)),
    "tridiagonal": (lax.linalg.tridiagonal, symmetric(normal(5, 5))),
    "eigenvalues": (lax.linalg.eig, normal(4, 4)),
    "eigenvalues, complex": (lax.linalg.eig, complex_normal(4, 4)),
}


def of_qr(x):
    q, r = jnp.linalg.qr(x)
    return jnp.sum(jnp.sin(q[:, :2])) + jnp.sum(r * r)


def of_eigh(x):
    w, v = jnp.linalg.eigh(x + x.T)
    return jnp.sum(w**3) + jnp.sum(v[0] ** 2 * jnp.arange(5))


def of_svd(x):
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    return jnp.sum(s**3) + jnp.sum((u * s) @ jnp.cos(vh)) + jnp.sum(vh[0] ** 2 * jnp.arange(vh.shape[1]))


def of_eigenvalues(x):
    return jnp.sum(jnp.abs(jnp.linalg.eigvals(x)) ** 3)


WEIGHTS = normal(5, 5)
LOSSES = {
    "qr": (of_qr, normal(5, 3)),
    "eigh": (of_eigh, normal(5, 5)),
    "solve": (lambda x: jnp.sum(jnp.sin(jnp.linalg.solve(x, WEIGHTS[:, :2]))), strong(5, 5)),
    "inverse": (lambda x: jnp.sum(jnp.linalg.inv(x) * WEIGHTS), strong(2, 5, 5)),
    "logarithm of the determinant": (lambda x: jnp.linalg.slogdet(x)[1], normal(5, 5)),
    "cholesky": (lambda x: jnp.sum(jnp.sin(jnp.linalg.cholesky(x))), POSITIVE),
    "lu": (lambda x: jnp.sum(jnp.sin(lax.linalg.lu(x)[0])), normal(5, 4)),
    "svd": (of_svd, normal(5, 3)),
    "svd, wide": (of_svd, normal(3, 5)),
    "svd of many columns": (of_svd, normal(3, 1100)),
    "svd of many rows": (of_svd, normal(1100, 3)),
    "eigenvalues": (of_eigenvalues, normal(4, 4)),
}


def lowered(function, x, platform):
    """Its text; nothing where JAX has no such function for the platform."""
    try:
        return jax.jit(function).trace(x).lower(lowering_platforms=(platform,)).as_text()
    except NotImplementedError:
        return None


def has_gradient(case, platform):
    """On TPUs JAX writes singular values as a loop that ends when it has converged; no such loop has a derivative."""
    return not (platform == "tpu" and case.startswith("svd"))


def run(folder, text, x, differentiate):
    """The results in order, and what went wrong."""
    program, given, results = folder / "program.mlir", folder / "given.npz", folder / "results.npz"
    program.write_text(text)
    np.savez(given, p0=x)
    if differentiate:
        done = subprocess.run(["gshard-opt", "grad", program, "-o", folder / "gradient.hlo"], capture_output=True, text=True, check=False)
        if done.returncode:
            return [], done.stderr.strip()
        program = folder / "gradient.hlo"
    done = subprocess.run(["gshard-run", program, "--unpartitioned", "--input", given, "--output", results], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return [], done.stderr.strip()
    with np.load(results) as found:
        return [found[name] for name in found.files], ""


def compare(found, wanted):
    if len(found) != len(wanted):
        return f"{len(found)} results, JAX has {len(wanted)}"
    for i, (x, y) in enumerate(zip(found, wanted)):
        error = np.abs(np.abs(x) - np.abs(y)).max() / max(1, np.abs(y).max())
        if not error <= TOLERANCE:
            return f"result {i} is {error:.1e} off"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for platform in PLATFORMS:
            for case, (function, x) in FUNCTIONS.items():
                text = lowered(function, x, platform) if re.search(only, case) else None
                if text is not None:
                    found, problem = run(folder, text, x, differentiate=False)
                    tally.check(f"{case} for {platform}", problem or compare(found, jax.tree.leaves(jax.jit(function)(x))))
            for case, (loss, x) in LOSSES.items():
                text = lowered(loss, x, platform) if re.search(only, case) and has_gradient(case, platform) else None
                if text is not None:
                    found, problem = run(folder, text, x, differentiate=True)
                    tally.check(f"gradient of {case} for {platform}", problem or compare(found[1:], [jax.grad(loss)(x)]))
    tally.finish()


if __name__ == "__main__":
    main()
