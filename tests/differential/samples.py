"""The samples with the rules and the meshes they are run over."""
import glob
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLES = os.path.join(ROOT, "samples")

# name, rules, mesh for 8, 256 and 2048 devices
GENERATED = [
    ("moe_train", "moe_train", ("data=2,model=4", "data=16,model=16", "data=32,model=64")),
    ("moe_2048", "moe_2048", ("core=8", "core=256", "core=2048")),
    ("transformer_train", "transformer_train", ("data=2,model=4", "data=16,model=16", "data=32,model=64")),
    ("resnet_train", "resnet_train", ("data=8", "data=256", "data=2048")),
    ("resnet_train", "resnet_train.spatial", ("data=2,space=4", "data=64,space=4", "data=512,space=4")),
    ("pipeline_loop", "pipeline_loop",
     ("stage=2,data=2,model=2", "stage=8,data=8,model=4", "stage=8,data=16,model=16")),
    ("mlp", "mlp", ("data=2,model=4", "data=16,model=16", "data=32,model=64")),
]
# Written by hand with shardings inside: run over the mesh they declare.
BY_HAND = ["mlp", "moe_layer", "spatial_conv", "pipeline"]


def path(name):
    return os.path.join(SAMPLES, name + ".hlo")


def devices(mesh):
    count = 1
    for axis in mesh.split(","):
        count *= int(axis.split("=")[1])
    return count


def annotate(name, rules, mesh, out):
    """Writes the annotated sample to `out`; returns what went wrong, or ""."""
    done = subprocess.run(["gshard-opt", "annotate", path(name), "--mesh", mesh, "--rules",
                           os.path.join(SAMPLES, rules + ".rules"), "-o", out], capture_output=True, text=True)
    return done.stderr.strip()[:500] if done.returncode else ""


def corpus_files(folder):
    """Files of the folder that have shardings and are not partitioned yet."""
    found = []
    for file in sorted(glob.glob(os.path.join(folder, "*.hlo"))):
        text = open(file).read()
        if "sharding={" in text and "replica_groups=" not in text:
            found.append(file)
    return found


def check_each(tally, check_file, corpus):
    """check_file(tally, name, path) on each file of the folder `corpus` that has shardings and is not partitioned yet,
    and on each sample over its smallest mesh."""
    files = corpus_files(corpus) if corpus else []
    if not files:
        print("SKIPPED: the corpus (GSHARD_CORPUS) is absent")
    for file in files:
        check_file(tally, os.path.basename(file), file)
    for name in BY_HAND:
        check_file(tally, name, path(name))
    with tempfile.TemporaryDirectory() as folder:
        for name, rules, meshes in GENERATED:
            out = os.path.join(folder, rules + ".hlo")
            problem = annotate(name, rules, meshes[0], out)
            if problem:
                tally.check(f"annotate {rules}", problem)
            else:
                check_file(tally, rules, out)
