// Runs passes with timing, verification and printing around each.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/pass.h"
#include "ir/parser_errors.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"

namespace gshard {

Expected<const Pass*> PassNamed(std::string_view name) {
  if (const Pass* pass = FindPass(name)) return pass;
  return Fail(MakeError("E-USAGE-005", fmt::format("no pass is called '{}'", name),
                        DidYouMean(name, AllPasses(), &Pass::name) +
                            "gshard-opt list-passes prints their names"));
}

const Pass* FindPass(std::string_view name) {
  std::span<const Pass> all = AllPasses();
  auto it =
      std::find_if(all.begin(), all.end(), [&](const Pass& pass) { return pass.name == name; });
  return it == all.end() ? nullptr : &*it;
}

Expected<void> RunPasses(Module& module, std::span<const Pass* const> passes, PassContext& context,
                         const PassManagerOptions& options, std::vector<PassTiming>* timings) {
  for (const Pass* pass : passes) {
    auto start = std::chrono::steady_clock::now();
    Expected<bool> changed = pass->run(module, context);
    if (!changed) return Fail(std::move(changed.error()));
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (timings != nullptr) timings->push_back({std::string(pass->name), elapsed.count()});
    if (options.verify_each) {
      Expected<void> verified = VerifyModule(module);
      if (!verified) {
        throw InternalError(fmt::format("the module is malformed after pass {}: {}", pass->name,
                                        verified.error().message));
      }
    }
    if (!options.sink) continue;
    if (options.print_after_all) options.sink(fmt::format("// after {}\n", pass->name));
    if (options.print_after_all || options.print_after == pass->name) {
      options.sink(PrintModule(module));
    }
  }
  return {};
}

}  // namespace gshard
