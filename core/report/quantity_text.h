// Quantities for people: "1.50 GiB", "312 KiB"; "1.23 ms"; "3.41 TFLOP".
#ifndef GSHARD_CORE_REPORT_QUANTITY_TEXT_H_
#define GSHARD_CORE_REPORT_QUANTITY_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gshard {

// "1 tile", "3 tiles".
std::string Counted(int64_t count, std::string_view one);
// Powers of 1024.
std::string HumanBytes(double bytes);
std::string HumanSeconds(double seconds);
// Powers of 1000.
std::string HumanFlops(double flops);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_QUANTITY_TEXT_H_
