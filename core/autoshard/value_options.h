// What a plan could do with one value, and what each choice would make of the whole plan:
// `gshard-opt explain IN NAME --plan`. docs/auto.md.
#ifndef GSHARD_CORE_AUTOSHARD_VALUE_OPTIONS_H_
#define GSHARD_CORE_AUTOSHARD_VALUE_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "core/autoshard/auto_sharding.h"
#include "core/json.h"

namespace gshard::autoshard {

// Collectives of one kind along the same axes that a plan has more (or, negative, less) than the
// best plan, in one step of one device.
struct CollectiveChange {
  std::string kind;
  std::vector<std::string> axes;
  double count = 0;
  double bytes = 0;  // sent
};

// One choice for the value's group, in the best plan that one round of changes of the other groups
// finds around it.
struct ValueOption {
  std::string spec;  // "data,_", as `annotate --shard` takes it; empty: no annotation
  bool is_of_best_plan = false;
  double step_time_s = 0, exposed_communication_s = 0;
  int64_t peak_bytes = 0;
  bool fits = true;
  bool zero = false;                  // updates of weights are cut
  std::vector<std::string> followed;  // what else is then cut otherwise: "weights wo: model,_"
  std::vector<CollectiveChange> changes;
};

struct ValueOptions {
  std::string value;    // whose options they are
  std::string group;    // "weights", "inputs", "products", "results", "annotated"
  std::string shape;    // "f32[256,1024]"
  int64_t members = 0;  // instructions that are cut alike
  std::string chip;
  std::vector<MeshAxis> mesh;
  int64_t limit_bytes = 0;           // 0: none
  int64_t evaluations = 0;           // plans priced
  int64_t refused = 0;               // options that cannot be partitioned
  std::vector<ValueOption> options;  // that of the best plan first, then the best first
};

// `name`: of an instruction of `module`, which is used up. Errors: as ShardAutomatically; a value
// that no plan annotates (E-AUTO-004), with the nearest that one does.
Expected<ValueOptions> OptionsOfValue(std::unique_ptr<Module> module, const std::string& input,
                                      const std::string& name, const AutoOptions& options);

std::string OptionsAsText(const ValueOptions& options);
Json OptionsAsJson(const ValueOptions& options);  // of gshard.explain/1

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_VALUE_OPTIONS_H_
