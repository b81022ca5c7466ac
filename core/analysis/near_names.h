// What a user may have meant by a pattern that matches nothing.
#ifndef GSHARD_CORE_ANALYSIS_NEAR_NAMES_H_
#define GSHARD_CORE_ANALYSIS_NEAR_NAMES_H_

#include <string>
#include <string_view>

#include "ir/module.h"

namespace gshard {

// "did you mean 'kernel'? " for the pattern "kernal$": the word of a name or of an op_name path
// that is nearest to a word of the regular expression. Empty if none is near. Linear in the text.
std::string WordMeantBy(const Module& module, std::string_view pattern);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_NEAR_NAMES_H_
