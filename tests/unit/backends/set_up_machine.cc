// What is tested is what gshard-run does: with the kernels that it gives OpenBLAS on this machine.
#include "backends/cpu/machine/machine.h"

namespace gshard::cpu {
namespace {

[[maybe_unused]] const bool is_set_up = SetUpMachine().has_value();

}  // namespace
}  // namespace gshard::cpu
