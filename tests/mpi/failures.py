#!/usr/bin/env python3
"""Ranks that fail, many times: every run must end in time, with the right exit code and message.

  PATH=build/ci/cmd:$PATH tests/mpi/failures.py [--runs 200] [--seed 1] [--timeout 2] [--mpirun mpirun]

What happens to a rank, in turn: it is killed, it is stopped, its program is cut short, its program is another one, the
system gives it no memory. Which rank, how many there are, and when, is random. A killed or stopped rank must end all
within --comm-timeout and five seconds; so long may any machine take before (--patience). Exit code 0: all did.
"""
import argparse
import collections
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ["kill", "stop", "truncated", "other file", "no memory"]
# 1 GiB on every device, which are a rank each: more than the victim gets, and nobody comes to fill it.
LARGE = """HloModule large, num_partitions={devices}
ENTRY e {{
  p = f32[{devices},1]{{1,0}} parameter(0), sharding={{devices=[{devices},1]<=[{devices}]}}
  r = f32[{devices}]{{0}} reshape(p), sharding={{devices=[{devices}]<=[{devices}]}}
  ROOT n = f32[{devices},268435456]{{1,0}} broadcast(r), dimensions={{0}},
    sharding={{devices=[{devices},1]<=[{devices}]}}
}}
"""


class Run:
    """One run of several ranks with something wrong about one of them."""

    def __init__(self, options, kind, ranks, victim, folder):
        self.options, self.kind, self.ranks, self.victim, self.folder = options, kind, ranks, victim, folder
        self.program = os.path.join(ROOT, "samples", "moe_layer.hlo")  # its messages are in shared memory

    def command(self):
        """Each rank tells its process number; the victim may read another file, or get less memory."""
        theirs, limit = self.program, "unlimited"
        if self.kind == "truncated":
            theirs = os.path.join(self.folder, "cut.hlo")
            text = open(self.program, "rb").read()
            open(theirs, "wb").write(text[:random.randrange(1, len(text) - 1)])
        elif self.kind == "other file":
            theirs = os.path.join(ROOT, "samples", "mlp.hlo")
        elif self.kind == "no memory":
            self.program = theirs = os.path.join(self.folder, "large.hlo")
            open(theirs, "w").write(LARGE.format(devices=self.ranks))
            limit = "800000"
        script = ('r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; file=%s; if [ "$r" = %d ]; then file=%s; ulimit -v %s; fi; '
                  'echo $$ >%s/$r.pid; exec gshard-run-mpi "$file" --threads 1 --comm-timeout %d --repeat %d '
                  '--memory-limit 100GiB' % (
                      self.program, self.victim, theirs, limit, self.folder, self.timeout(),
                      1 if self.kind == "no memory" else 1000000))
        flags = []
        version = subprocess.run([self.options.mpirun, "--version"], capture_output=True, text=True).stdout
        if "Open MPI" in version:
            flags = ["--bind-to", "none", "--oversubscribe"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
        return [self.options.mpirun, *flags, "-n", str(self.ranks), "sh", "-c", script]

    def timeout(self):
        """Short only where a rank that is silent is to be noticed: others may be slow on a busy machine."""
        return self.options.timeout if self.kind in ("kill", "stop") else int(self.options.patience)

    def pids(self):
        files = glob.glob(os.path.join(self.folder, "*.pid"))
        texts = {int(os.path.basename(f)[:-4]): open(f).read().strip() for f in files}
        return {rank: int(text) for rank, text in texts.items() if text}

    @staticmethod
    def seconds_of(pid):
        """Processor time: more than MPI's start takes means that it runs."""
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            return 0

    def strike(self, process):
        """Waits until all ranks run, then kills or stops the victim. False: they never did."""
        deadline = time.monotonic() + self.options.patience
        while time.monotonic() < deadline and process.poll() is None:
            pids = self.pids()
            if len(pids) == self.ranks and min(self.seconds_of(pid) for pid in pids.values()) > 0.6:
                time.sleep(random.uniform(0, 0.7))
                os.kill(pids[self.victim], signal.SIGKILL if self.kind == "kill" else signal.SIGSTOP)
                return True
            time.sleep(0.05)
        return False

    def complaint(self):
        """What is wrong about the run, or ''."""
        with open(os.path.join(self.folder, "log"), "w+") as log:
            process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       process_group=0)
            within = self.options.patience
            try:
                if self.kind in ("kill", "stop"):
                    if not self.strike(process):
                        return "the ranks did not start"
                    within = self.options.timeout + 5
                code = process.wait(within)
            except subprocess.TimeoutExpired:
                return f"still running after {within} s"
            finally:
                self.end_all(process)
            log.seek(0)
            return self.judge(code, log.read())

    def end_all(self, process):
        for pid in list(self.pids().values()) if process.poll() is None else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def judge(self, code, text):
        if self.kind == "kill":
            # The launcher's own line names the rank; so may a rank that was told first.
            named = re.search(rf"rank {self.victim} with PID|rank {self.victim} has not got on|EXIT CODE: 9", text)
            wanted, right = "not 0", code != 0
        elif self.kind == "stop":
            named = re.search(rf"rank {self.victim} has not got on .* rank \d+ (waits for it in|computes in) .*"
                              r"bytes outstanding", text)
            wanted, right = "4", code == 4
        elif self.kind in ("truncated", "other file"):
            # Of several others the first is named; if rank 0 is the victim, that is rank 1.
            named = re.search(rf"rank {self.victim or 1} reads is not rank 0's", text)
            wanted, right = "1", code == 1
        else:
            named = "E-RUN-MEMORY" in text and text.count("E-RUN-MEMORY") == 1
            wanted, right = "3", code == 3
        if not right:
            return f"exit code {code} instead of {wanted}:\n{text[-2000:]}"
        return "" if named else f"the message is missing:\n{text[-2000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=2, help="--comm-timeout of the runs")
    parser.add_argument("--patience", type=float, default=90, help="seconds for ranks to start on a busy machine")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of: " + ", ".join(KINDS))
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    random.seed(options.seed)
    failed, count = 0, collections.Counter()
    for i in range(options.runs):
        kind, ranks = kinds[i % len(kinds)], random.choice([2, 3, 4])
        if kind == "no memory":
            ranks = 2
        victim = random.randrange(ranks)
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            complaint = Run(options, kind, ranks, victim, folder).complaint()
        count[kind] += 1
        print(f"{i}: {kind}, rank {victim} of {ranks}: {complaint or 'ok'} ({time.monotonic() - begin:.1f} s)",
              flush=True)
        failed += bool(complaint)
    print(", ".join(f"{n} {kind}" for kind, n in count.items()))
    print(f"{options.runs - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
