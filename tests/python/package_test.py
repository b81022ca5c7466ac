"""import gshard: what goes in, what comes out, what goes wrong. From the top of the checkout, with GSHARD_BIN and PYTHONPATH set."""
import dataclasses
import doctest
import importlib
import json
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile
import unittest

import gshard
from gshard import _inputs, _programs, testing

MLP = pathlib.Path("samples/mlp.hlo")
WRONG = """HloModule wrong, num_partitions=2, frontend_attributes={gshard.num_partitions="2",gshard.output_shardings="{devices=[2]<=[2]}"}
ENTRY e {
  x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[2] negate(x)
}
"""


class Lowered:
    """As JAX's: text, with debug information if asked for."""

    def __init__(self, text):
        self.text = text

    def as_text(self, dialect=None, *, debug_info=False):
        return self.text if debug_info else "no debug information"


class OldLowered:
    """As JAX 0.4.30's, whose text has no names."""

    def as_text(self, dialect=None):
        return "no debug information"

    def compiler_ir(self, dialect=None):
        return MlirModule()


class HoldingLowered:
    """As Equinox's, which holds JAX's and whose own text has no names."""

    def __init__(self, text):
        self.lowered = Lowered(text)

    def as_text(self):
        return "no debug information"


class Compiled:
    def as_text(self):
        return MLP.read_text()


class Exported:
    fun_name = "step"

    def mlir_module(self):
        return MLP.read_text()


class MlirModule:
    class operation:
        @staticmethod
        def get_asm(enable_debug_info=False):
            assert enable_debug_info
            return MLP.read_text()


class Jitted:
    def lower(self, *args, **kwargs):
        assert (args, kwargs) == ((1, 2), {"k": 3})
        return Lowered(MLP.read_text())


class Spec:
    """As JAX's PartitionSpec: no tuple, and dims that are no text."""

    def __init__(self, *dims):
        self.dims = dims

    def __iter__(self):
        return iter(self.dims)


class Inputs(unittest.TestCase):
    def test_all_forms_of_a_program(self):
        text = MLP.read_text()
        for program in (text, str(MLP), MLP, text.encode(), Lowered(text), HoldingLowered(text), OldLowered(), Compiled(),
                        Exported(), MlirModule()):
            self.assertEqual(gshard.cost(program).memory.peak_bytes, 4194304, program)
        self.assertEqual(gshard.cost(Jitted(), 1, 2, kwargs={"k": 3}).devices, 8)

    def test_what_is_no_program(self):
        for program, word in ((3, "int"), (Lowered, "type"), ("no/such/file", "No such file"), (None, "NoneType")):
            with self.assertRaisesRegex(gshard.UsageError, word):
                gshard.cost(program)
        with self.assertRaisesRegex(gshard.UsageError, "arguments go with a function"):
            gshard.cost(MLP, 1)

    def test_meshes(self):
        class Mesh:
            shape = {"data": 4, "model": 2}

        for mesh in ("data=4,model=2", {"data": 4, "model": 2}, Mesh()):
            report = gshard.cost(MLP, mesh=mesh)
            self.assertEqual([(axis["name"], axis["size"]) for axis in report.document["mesh"]], [("data", 4), ("model", 2)])
        with self.assertRaisesRegex(gshard.UsageError, "no mesh"):
            gshard.cost(MLP, mesh=8)

    def test_rules(self):
        mesh = {"data": 2, "model": 4}
        text = MLP.read_text().replace(", sharding={@pod, [{'data'}, {}]}", "").replace(", meshes={pod=['data'=2,'model'=4]}", "")
        text = text.replace(", sharding={@pod, [{}, {'model'}]}", "").replace(", sharding={@pod, [{'model'}, {}]}", "")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rules"
            file.write_text("^x$=data,..\n^wi$=_,model\n^wo$=model,_\n")
            for rules in ({"^x$": ("data",), "^wi$": (None, "model"), "^wo$": Spec("model", None)}, file, str(file),
                          ["^x$=data,_", "^wi$=_,model", "^wo$=model,_"]):
                report = gshard.cost(text, mesh=mesh, rules=rules)
                self.assertEqual(report.memory.argument_bytes, 3 * 2**19, rules)
        self.assertEqual(_inputs.spec_text(Spec("a", ("b", "c"), object(), None, ())), "a,b+c,*,_,_,..")

    def test_jax_is_not_imported(self):
        code = "import sys, gshard, gshard.testing; sys.exit(bool({'jax', 'numpy'} & set(sys.modules)))"
        subprocess.run([sys.executable, "-c", code], check=True)


class Answers(unittest.TestCase):
    def test_every_field_is_in_the_document(self):
        """Fields are keys of the documents: what a newer program renames, this tells."""
        report = gshard.cost(MLP)
        own = {"document", "_render"}
        for each in dataclasses.fields(report):
            self.assertTrue(each.name in own or each.name in report.document, each.name)
        for row in (report.memory.at_peak[0], report.collectives[0]):
            kind = report.document["memory"]["at_peak"] if isinstance(row, gshard.Tensor) else report.document["collectives"]
            for each in dataclasses.fields(row):
                self.assertIn(each.name, kind[0])

    def test_forms_of_a_report(self):
        report = gshard.cost(MLP, limit="16GiB")
        self.assertIn("fits 16 GiB", str(report).splitlines()[0])
        self.assertIn("|", report.markdown())
        self.assertTrue(report.page().lstrip().lower().startswith("<!doctype html>"))
        self.assertIn("srcdoc=", report._repr_html_())
        self.assertTrue(report.ok)

    def test_limits_and_budgets(self):
        report = gshard.cost(MLP, limit=2**20)
        self.assertEqual((report.fits, report.ok, report.failed_checks[0].check), (False, False, "limit"))
        with tempfile.TemporaryDirectory() as folder:
            budget = pathlib.Path(folder) / "budget.json"
            gshard.cost(MLP, flags=["--write-budget", str(budget)])
            self.assertTrue(gshard.check(MLP, budget=budget).ok)
            budget.write_text(json.dumps({**json.loads(budget.read_text()), "peak_bytes": 1}))
            failed = gshard.check(MLP, budget=budget)
            self.assertEqual([each.key for each in failed.failed_checks], ["peak_bytes"])
            self.assertIn("fits tpu-v3 (15.5 GiB): 4 MiB", str(failed))
        with self.assertRaises(gshard.InputError) as caught:
            gshard.check(MLP, budget={"no_such_key": 1})
        self.assertEqual(caught.exception.code, "E-COST-021")

    def test_runs(self):
        self.assertIsNone(gshard.run(MLP).verify)
        with tempfile.TemporaryDirectory() as folder:
            whole, wrong = (pathlib.Path(folder) / name for name in ("whole.hlo", "wrong.hlo"))
            whole.write_text("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(x)\n}\n")
            wrong.write_text(WRONG)
            report = gshard.run(wrong, verify=True, flags=["--reference", str(whole)])
            self.assertEqual((report.ok, report.verify.ok, report.verify.status), (False, False, "mismatch"))
            with self.assertRaisesRegex(AssertionError, "y"):
                testing.assert_verifies(wrong, flags=["--reference", str(whole)])
            self.assertIn("verify: mismatch, 1 output", str(report))
            gshard.run(MLP, outputs=pathlib.Path(folder) / "o.npz", seed=3)
            self.assertTrue((pathlib.Path(folder) / "o.npz").exists())

    def test_diffs(self):
        change = gshard.diff(MLP, gshard.cost(MLP, mesh={"data": 8, "model": 1}))
        self.assertLess(change.peak_bytes.ratio, 2)
        self.assertIn("peak memory", str(change))
        self.assertEqual(gshard.Change(0, 0).ratio, 1)
        self.assertEqual(gshard.Change(0, 2).ratio, float("inf"))

    def test_auto(self):
        if "auto" not in subprocess.run([*_programs.command_of("gshard-opt"), "--help"], capture_output=True, text=True).stdout:
            self.skipTest("this gshard-opt has no auto")
        plans = gshard.auto(MLP, mesh={"data": 2, "model": 4}, flags=["--time-limit", "5s"])
        self.assertTrue(plans.best and plans.text.startswith("HloModule"))
        self.assertIn("data=2,model=4", str(plans))

    def test_sweeps(self):
        rules = {"^x$": ("data",), "^wi$": (None, "model")}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mlp.rules"
            file.write_text("^x$=data,_\n^wi$=_,model\n")
            by_file, by_name = (gshard.sweep(MLP, mesh="data=1..4,model=2", rules=each) for each in (file, rules))
        self.assertEqual(by_file, by_name)
        self.assertEqual(len(str(by_name).splitlines()), 2 + 3)
        self.assertEqual([point.batch for point in gshard.sweep(MLP, batch="512,1024").points], [512, 1024])


class Failures(unittest.TestCase):
    def test_bad_input(self):
        with self.assertRaises(gshard.InputError) as caught:
            gshard.cost("HloModule m\nENTRY e {\n  x = f32[2] nosuch(y)\n}\n")
        error = caught.exception
        self.assertEqual((error.line, error.code[:2]), (3, "E-"))
        self.assertIn("^", str(error))

    def test_bad_usage(self):
        with self.assertRaisesRegex(gshard.UsageError, "no-such-chip"):
            gshard.cost(MLP, chip="no-such-chip")

    def test_no_programs(self):
        old = os.environ["GSHARD_BIN"]
        try:
            os.environ["GSHARD_BIN"] = "/nonexistent"
            with self.assertRaisesRegex(gshard.ProgramNotFound, "GSHARD_BIN"):
                gshard.cost(MLP)
            del os.environ["GSHARD_BIN"]
            os.environ["PATH"], path = str(pathlib.Path(old)), os.environ["PATH"]
            try:
                self.assertEqual(_programs.command_of("gshard-opt"), [str(pathlib.Path(old) / "gshard-opt")])
            finally:
                os.environ["PATH"] = path
        finally:
            os.environ["GSHARD_BIN"] = old

    def test_assertions(self):
        self.assertTrue(testing.assert_collectives(MLP, {"all-reduce": 2}, exact=False))
        with self.assertRaisesRegex(AssertionError, "all-gather: 0, should be 1"):
            testing.assert_collectives(MLP, {"all-reduce": 1, "all-gather": 1})


class PytestPlugin(unittest.TestCase):
    def test_fixtures(self):
        if importlib.util.find_spec("pytest") is None:
            self.skipTest("no pytest")
        with tempfile.TemporaryDirectory() as folder:
            test = pathlib.Path(folder) / "test_step.py"
            test.write_text(f"STEP = {str(MLP.resolve())!r}\n"
                            "def test_fits(assert_fits):\n    assert assert_fits(STEP).chip == 'h100'\n"
                            "def test_named(assert_fits):\n    assert assert_fits(STEP, chip='tpu-v4').chip == 'tpu-v4'\n"
                            "def test_tight(assert_fits):\n    assert_fits(STEP, limit='1MiB')\n"
                            "def test_collectives(assert_collectives):\n    assert_collectives(STEP, {'all-reduce': 1})\n"
                            "def test_verifies(assert_verifies):\n    assert_verifies(STEP)\n")
            done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "gshard.pytest_plugin",
                                   "--gshard-chip", "h100", "--rootdir", folder, "-c", os.devnull, str(test)], capture_output=True, text=True)
            self.assertIn("4 passed", done.stdout, done.stdout + done.stderr)
            self.assertIn("1 failed", done.stdout)
            self.assertIn("mlp does not fit: the peak of 3.50 MiB is over 1.00 MiB", done.stdout)


def load_tests(loader, tests, pattern):
    """The examples in docstrings as well."""
    for module in pkgutil.iter_modules(gshard.__path__, "gshard."):
        if module.name != "gshard.pytest_plugin":
            tests.addTests(doctest.DocTestSuite(importlib.import_module(module.name)))
    return tests


if __name__ == "__main__":
    import importlib.util

    result = unittest.main(exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed")
    sys.exit(bad > 0)
