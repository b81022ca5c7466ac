#!/usr/bin/env python3
"""gshard-run against JAX on one device, on ten programs of libraries: called by library_programs.sh, which see.

Both sides run the same step on the same inputs, in turn, round by round; figures are medians of all steps after the
first of each round. Results are compared: a program that gives others than JAX's fails whatever its time.
--processor-time measures what the steps take of the processors instead: the figure for a machine that does other work.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["EQX_ON_ERROR"] = "nan"  # without callbacks to Python

import diffrax
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from vs_xla import processor

LIMIT = 1.2
TOLERANCE = 2e-3  # of a result's largest element
PROGRAMS = {}


def program(make):
    """Registers `make`, which returns a step and its arguments."""
    PROGRAMS[make.__name__] = make
    return make


def normal(*shape, scale=1.0):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32) * np.float32(scale)


# ---------------------------------------------------------------- diffrax
@program
def ode_adaptive():
    """Lotka and Volterra's equations, adaptive steps, 64 initial values."""
    def field(t, y, args):
        prey, predator = y
        return jnp.stack([1.1 * prey - 0.4 * prey * predator, 0.1 * prey * predator - 0.4 * predator])

    def solve(y):
        return diffrax.diffeqsolve(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 10.0, 0.05, y, max_steps=4096,
                                   stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
                                   adjoint=diffrax.ForwardMode(), throw=False).ys

    return jax.vmap(solve), (np.abs(normal(64, 2)) + 5.0,)


@program
def ode_neural():
    """A neural ODE, fixed steps."""
    def step(params, y):
        field = lambda t, y, p: jnp.tanh(y @ p["w0"]) @ p["w1"]
        return diffrax.diffeqsolve(diffrax.ODETerm(field), diffrax.Dopri5(), 0.0, 1.0, 0.02, y, args=params, max_steps=64,
                                   adjoint=diffrax.ForwardMode(), throw=False).ys

    return step, ({"w0": normal(16, 64, scale=0.2), "w1": normal(64, 16, scale=0.2)}, normal(32, 16))


@program
def sde():
    """An Ornstein-Uhlenbeck process, 128 paths of 200 Euler steps."""
    def step(seeds):
        def path(seed):
            key = jax.random.key(seed)
            brownian = diffrax.VirtualBrownianTree(0.0, 2.0, 1e-2, (4,), key)
            terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y),
                                      diffrax.ControlTerm(lambda t, y, args: 0.3 * jnp.eye(4), brownian))
            return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 2.0, 0.01, jnp.ones(4), max_steps=256,
                                       adjoint=diffrax.ForwardMode(), throw=False).ys
        return jax.vmap(path)(seeds)

    return step, (np.arange(128, dtype=np.int32),)


# ---------------------------------------------------------------- samplers
@program
def metropolis():
    """A random walk with 32 chains of 500 steps."""
    def step(seed, start):
        density = lambda x: -0.5 * jnp.sum(x * x, -1)

        def move(x, key):
            propose, accept = jax.random.split(key)
            other = x + 0.5 * jax.random.normal(propose, x.shape)
            taken = jnp.log(jax.random.uniform(accept, x.shape[:1])) < density(other) - density(x)
            return jnp.where(taken[:, None], other, x), jnp.mean(taken.astype(jnp.float32))

        return jax.lax.scan(move, start, jax.random.split(jax.random.key(seed), 500))

    return step, (np.int32(3), normal(32, 8))


@program
def hamiltonian():
    """Hamiltonian Monte Carlo on a logistic regression: 50 moves of 10 leapfrog steps."""
    def step(seed, x, y):
        def density(w):
            return -jnp.sum(jax.nn.softplus(-y * (x @ w))) - 0.5 * jnp.sum(w * w)

        def leapfrog(state, _):
            w, p = state
            p = p + 0.005 * jax.grad(density)(w)
            w = w + 0.01 * p
            return (w, p + 0.005 * jax.grad(density)(w)), None

        def move(w, key):
            p = jax.random.normal(key, w.shape)
            (w, _), _ = jax.lax.scan(leapfrog, (w, p), None, length=10)
            return w, density(w)

        return jax.lax.scan(move, jnp.zeros(x.shape[1]), jax.random.split(jax.random.key(seed), 50))

    return step, (np.int32(5), normal(256, 16), np.sign(normal(256)))


# ---------------------------------------------------------------- training steps
@program
def adam():
    """A hundred steps of adam on a two-layer network."""
    optimizer = optax.adam(1e-3)
    params = {"w0": normal(32, 64, scale=0.1), "w1": normal(64, 8, scale=0.1)}

    def step(params, x, y):
        loss = lambda p: jnp.mean((jnp.tanh(x @ p["w0"]) @ p["w1"] - y) ** 2)

        def update(state, _):
            params, moments = state
            value, gradients = jax.value_and_grad(loss)(params)
            updates, moments = optimizer.update(gradients, moments, params)
            return (optax.apply_updates(params, updates), moments), value

        (params, _), losses = jax.lax.scan(update, (params, optimizer.init(params)), None, length=100)
        return params, losses

    return step, (params, normal(64, 32), normal(64, 8))


@program
def flax_attention():
    """Forward and backward of attention and a feed-forward layer."""
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.SelfAttention(8)(nn.LayerNorm()(x))
            return x + nn.Dense(256)(nn.gelu(nn.Dense(1024)(nn.LayerNorm()(x))))

    model, x = Layer(), normal(8, 128, 256)
    params = jax.tree.map(np.asarray, model.init(jax.random.key(0), x))
    return jax.value_and_grad(lambda p, x: jnp.mean(model.apply(p, x) ** 2)), (params, x)


@program
def equinox_convolution():
    """Forward and backward of a small convolutional network."""
    keys = jax.random.split(jax.random.key(1), 3)
    model = eqx.nn.Sequential([eqx.nn.Conv2d(3, 16, 3, padding=1, key=keys[0]), eqx.nn.Lambda(jax.nn.relu),
                               eqx.nn.MaxPool2d(2, 2), eqx.nn.Conv2d(16, 32, 3, padding=1, key=keys[1]),
                               eqx.nn.Lambda(jax.nn.relu), eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(8192, 10, key=keys[2])])
    params, static = eqx.partition(model, eqx.is_array)

    def loss(params, x):
        return jnp.mean(jax.vmap(eqx.combine(params, static))(x) ** 2)

    return jax.value_and_grad(loss), (jax.tree.map(np.asarray, params), normal(16, 3, 32, 32))


# ---------------------------------------------------------------- spectral, integers
@program
def spectral():
    """Ten pseudo-spectral steps of the vorticity equation on 256 x 256 points."""
    n = 256

    def step(vorticity):
        k = jnp.fft.fftfreq(n, 1 / n)[:, None], jnp.fft.rfftfreq(n, 1 / n)[None, :]
        square = k[0] ** 2 + k[1] ** 2
        inverse = jnp.where(square == 0, 0.0, 1 / jnp.where(square == 0, 1.0, square))

        def advance(_, w):
            grid = lambda f: jnp.fft.irfft2(f, (n, n))
            stream = w * inverse
            u, v = grid(1j * k[1] * stream), grid(-1j * k[0] * stream)
            advected = jnp.fft.rfft2(u * grid(1j * k[0] * w) + v * grid(1j * k[1] * w))
            return (w - 1e-3 * advected) / (1 + 1e-5 * square)

        return jnp.fft.irfft2(jax.lax.fori_loop(0, 10, advance, jnp.fft.rfft2(vorticity)), (n, n))

    return step, (normal(n, n),)


@program
def quantised():
    """Two layers of s8 weights and activations."""
    def step(x, wi, wo):
        product = lambda a, b: jax.lax.dot(a, b, preferred_element_type=jnp.int32)
        hidden = jnp.clip(product(x, wi) >> 7, 0, 127).astype(jnp.int8)
        return product(hidden, wo)

    random = np.random.default_rng(0)
    return step, tuple(random.integers(-127, 128, shape, np.int8) for shape in ((512, 512), (512, 1024), (1024, 512)))


# ---------------------------------------------------------------- measuring
class Case:
    """A program compiled by JAX, and its text and inputs in files."""

    def __init__(self, name, work):
        step, self.arguments = PROGRAMS[name]()
        jitted = jax.jit(step, keep_unused=True)
        lowered = jitted.lower(*self.arguments)
        self.path = os.path.join(work, name)
        with open(self.path + ".hlo", "w") as file:
            file.write(lowered.as_text(dialect="hlo"))
        leaves = jax.tree.leaves(self.arguments)
        np.savez(self.path + ".npz", **{f"p{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)})
        self.compiled = lowered.compile()
        self.arguments = jax.device_put(self.arguments)
        self.theirs, self.ours, self.error = [], [], 0.0

    def run_jax(self, steps):
        for i in range(steps + 1):
            start = time.perf_counter()
            self.results = jax.block_until_ready(self.compiled(*self.arguments))
            if i > 0:
                self.theirs.append(time.perf_counter() - start)

    def run_gshard(self, binary, steps):
        done = subprocess.run([binary, self.path + ".hlo", "--input", self.path + ".npz", "--output", self.path + ".out.npz",
                               "--repeat", str(steps + 1), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"library_programs: {self.path}: exit {done.returncode}: {done.stderr.strip()[:1000]}")
        self.ours += json.loads(done.stdout)["step_times_s"][1:]

    def run_processor_time(self, binary, steps):
        """A round of each, in user and system seconds a step; of short steps as many as take 0.2 s."""
        start = time.process_time()
        jax.block_until_ready(self.compiled(*self.arguments))
        steps = max(steps, min(1000, int(0.2 / max(1e-4, time.process_time() - start))))
        start = time.process_time()
        for _ in range(steps):
            self.results = jax.block_until_ready(self.compiled(*self.arguments))
        self.theirs.append((time.process_time() - start) / steps)
        # What starting takes is in both runs.
        self.ours.append((self.gshard_seconds(binary, 2 * steps) - self.gshard_seconds(binary, steps)) / steps)

    def gshard_seconds(self, binary, steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run_gshard(binary, steps)
        del self.ours[-steps:]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def compare(self):
        """The largest difference from JAX's results, each relative to its largest element.

        What is less than a millionth of the largest result is zero up to rounding.
        """
        theirs = [np.asarray(leaf) for leaf in jax.tree.leaves(self.results)]
        largest = [float(np.max(np.abs(leaf), initial=0)) for leaf in theirs]
        least = 1e-6 * max(largest) or 1.0
        with np.load(self.path + ".out.npz") as ours:
            for i, leaf in enumerate(theirs):
                difference = float(np.max(np.abs(ours[f"o{i}"].astype(np.float64) - leaf), initial=0))
                self.error = max(self.error, difference / max(largest[i], least))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=" ".join(PROGRAMS))
    parser.add_argument("--bin", required=True, help="folder of gshard-run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7, help="steps a round, after one to warm up")
    parser.add_argument("--processor-time", action="store_true", help="user and system time, not elapsed")
    parser.add_argument("--keep", metavar="DIR", help="write texts and inputs there")
    options = parser.parse_args()
    for name in options.programs:
        if name not in PROGRAMS:
            parser.error(f"no program {name}; there are: {' '.join(PROGRAMS)}")
    binary = os.path.join(options.bin, "gshard-run")
    failed = 0
    print(f"{processor()}, {os.cpu_count()} cores; medians of {options.rounds} rounds of {options.steps} steps")
    print("| program | JAX | gshard | ratio | at most | error |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for name in options.programs or PROGRAMS:
            case = Case(name, options.keep or work)
            for _ in range(options.rounds):
                if options.processor_time:
                    case.run_processor_time(binary, options.steps)
                    continue
                case.run_jax(options.steps)
                case.run_gshard(binary, options.steps)
            case.compare()
            theirs, ours = statistics.median(case.theirs), statistics.median(case.ours)
            passed = ours <= LIMIT * theirs and case.error <= TOLERANCE
            failed += not passed
            print(f"| {name} | {1e3 * theirs:.2f} ms | {1e3 * ours:.2f} ms | {ours / theirs:.2f} | {LIMIT} | {case.error:.1e} |"
                  f"{'' if passed else ' FAIL'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
