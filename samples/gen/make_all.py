"""Regenerates every JAX-made sample; the JAX of requirements.txt prints the same bytes again."""

import importlib
import pathlib

import hlo_text

GENERATORS = ("moe_train", "moe_2048", "transformer_train", "resnet_train", "pipeline_loop", "gpipe_step")

if __name__ == "__main__":
    for name in GENERATORS:
        path = pathlib.Path(hlo_text.HLO_DIR, f"{name}.hlo" if name != "gpipe_step" else "gpipe/step.hlo")
        path.write_text(importlib.import_module(name).make())
        print(f"{path}: {path.stat().st_size} bytes")
