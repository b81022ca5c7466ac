// Where the checkout's files are. The path is compiled into one file only, so that checkouts share
// what ccache keeps of the tests.
#ifndef GSHARD_TESTS_UNIT_SOURCE_FILE_H_
#define GSHARD_TESTS_UNIT_SOURCE_FILE_H_

#include <string>
#include <string_view>

namespace gshard {

// The absolute path of `path`, which is relative to the checkout.
std::string SourceFile(std::string_view path);

}  // namespace gshard

#endif  // GSHARD_TESTS_UNIT_SOURCE_FILE_H_
