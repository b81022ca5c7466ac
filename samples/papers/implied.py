"""What would have to be true of a chip for each row of a table to come out as measured (tables.py).

A step is the sum of its parts where nothing overlaps (TPU v2, v3). If one part alone is to blame for a row's error, it ran
at (part) / (part + error) of the rate that the model gives it. Rows that ask for different rates of the same part cannot
all be met by one set of constants; the search at the end says how close the best common rates come that are believable:
dots at 85 to 90 % of peak (GShard, section 5; the model has 87), memory at 80 to 100 % (GPUs: 81 to 92; the model has 90),
links of 70 to 100 GB/s (published: 82 and 100; the model has 86).
"""

import itertools
import math

RATES = {"dots": ("dot_s",), "memory": ("movement_s", "other_s"), "links": ("exposed_communication_s",)}
BELIEVABLE = {"dots": (85 / 87, 90 / 87), "memory": (80 / 90, 100 / 90), "links": (70 / 86.5, 100 / 86.5)}


def seconds(report, part):
    return sum(report["breakdown"][key] for key in RATES[part])


def text_of(rate):
    return "impossible" if rate is None or rate > 9 else f"{rate:10.2f}"


def implied(report, measured, part):
    """The part's rate over the model's that makes the row exact; None if no rate does."""
    needed = seconds(report, part) + measured - report["step_time_s"]
    return seconds(report, part) / needed if needed > 0 else None


def worst_error(rows, rates):
    """Of the rows with these rates in place of 1: the largest |log(ours / measured)|."""
    def error(report, measured):
        step = report["step_time_s"]
        step += sum(seconds(report, part) * (1 / rate - 1) for part, rate in zip(RATES, rates))
        return abs(math.log(step / measured))
    return max(error(report, measured) for _, report, measured in rows)


def print_table(rows):
    """`rows`: (name, report, measured seconds)."""
    print("\nIf one part alone is to blame, its rate over the model's:")
    print(f"{'row':36} {'missing':>9} " + " ".join(f"{part:>10}" for part in RATES))
    rates = {part: [implied(report, measured, part) for _, report, measured in rows] for part in RATES}
    for i, (name, report, measured) in enumerate(rows):
        print(f"{name:36} {measured - report['step_time_s']:7.3f} s "
              + " ".join(f"{text_of(rates[part][i]):>10}" for part in RATES))
    steps = [[low + (high - low) * k / 20 for k in range(21)] for low, high in BELIEVABLE.values()]
    best = min(itertools.product(*steps), key=lambda rates: worst_error(rows, rates))
    print(f"The worst row is off by a factor of {math.exp(worst_error(rows, (1,) * len(RATES))):.2f}; with the best believable "
          f"rates, fitted to these rows, by {math.exp(worst_error(rows, best)):.2f}\n("
          + ", ".join(f"{part} {rate:.2f}" for part, rate in zip(RATES, best))
          + "): so much is between the rows and not in any constant.")
