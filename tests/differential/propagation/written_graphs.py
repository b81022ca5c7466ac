"""Hand-written programs, one point of docs/propagation.md each: {name: text}."""
# Each adds its programs to CASES.
import written_driver
import written_gathers
import written_ops
import written_rare_ops
import written_regions
from written_cases import CASES
