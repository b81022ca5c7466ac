#include "core/report/pipeline_place.h"

#include <charconv>
#include <map>
#include <string_view>
#include <unordered_set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    parts.emplace_back(part);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return parts;
}

int64_t NumberOf(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<int64_t> NumbersOf(std::string_view text) {
  std::vector<int64_t> numbers;
  for (const std::string& part : Split(text, ',')) numbers.push_back(NumberOf(part));
  return numbers;
}

// What the header says of the stages.
struct Header {
  explicit Header(const Module& module) {
    const std::string text =
        FrontendAttribute(module.header().frontend_attributes, kPipelineAttribute);
    for (const std::string& word : Split(text, ' ')) {
      const size_t equals = word.find('=');
      if (equals != std::string::npos) words[word.substr(0, equals)] = word.substr(equals + 1);
    }
    first_layers = NumbersOf(words["first_layers"]);
    cuts = Split(words["cuts"], ',');
  }
  bool is_there() const { return !words.at("cuts").empty(); }
  std::map<std::string, std::string> words;
  std::vector<int64_t> first_layers;
  std::vector<std::string> cuts;
};

std::string Note(const Instruction* x, std::string_view key) {
  return FrontendAttribute(x->frontend_attributes(), key);
}

bool Reaches(const Instruction* from, const Instruction* to) {
  std::vector<const Instruction*> open = {from};
  std::unordered_set<const Instruction*> seen;
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    if (x == to) return true;
    if (!seen.insert(x).second) continue;
    for (const Instruction* operand : x->operands()) open.push_back(operand);
  }
  return false;
}

// The computation, or one that calls it, that is a pass of stages; null: none is.
const Computation* PassAround(const Module& module, const Computation* computation) {
  std::unordered_set<const Computation*> seen;
  std::vector<const Computation*> open = {computation};
  while (!open.empty()) {
    const Computation* c = open.back();
    open.pop_back();
    if (!seen.insert(c).second) continue;
    if (PassOf(*c)) return c;
    for (const Computation* other : module.computations()) {
      for (const Instruction* x : other->instructions()) {
        for (const Computation* called : x->called()) {
          if (called == c) open.push_back(other);
        }
      }
    }
  }
  return nullptr;
}

// Why an instruction is of its layer: what of that layer it uses.
std::string ReasonOf(const Instruction* x, const std::string& layer, const std::string& how) {
  if (how == "again") return "the backward pass needs this forward value, which is computed again";
  if (how == "forward") return "it stands between the layer's cut and the next one's";
  const Instruction* follows = nullptr;
  for (const Instruction* operand : x->operands()) {
    const std::string note = Note(operand, kLayerAttribute);
    if (note.empty() || note.substr(0, note.find(' ')) != layer) continue;
    if (!note.ends_with(" backward")) {
      return fmt::format("it uses '{}' of the layer's forward pass", operand->name());
    }
    follows = operand;
  }
  if (follows != nullptr) return fmt::format("it follows from '{}'", follows->name());
  return "its cotangent comes to this layer, whose forward values or weights it leads to";
}

PipelinePlace PlaceInPass(const Header& header, const StagePass& pass, const Instruction* x) {
  PipelinePlace place;
  place.pass = pass.pass;
  place.microbatches =
      fmt::format("once for each of the {} micro-batches",
                  header.words.count("microbatches") ? header.words.at("microbatches") : "");
  if (place.pass == "idle") {
    place.microbatches.clear();
    place.reason = "a device that has nothing to do at a tick runs it";
    return place;
  }
  place.stages = pass.stages;
  const std::string layer = Note(x, kLayerAttribute);
  if (layer.empty()) {
    place.reason =
        "of no layer: it moves data of the loop, or needs examples or other stages' values "
        "alone and is made where it is used";
    return place;
  }
  const size_t space = layer.find(' ');
  const int64_t offset = NumberOf(std::string_view(layer).substr(0, space));
  for (int64_t v : place.stages) {
    const size_t at = static_cast<size_t>(v);
    if (at < header.first_layers.size()) place.layers.push_back(header.first_layers[at] + offset);
  }
  place.reason = ReasonOf(x, layer.substr(0, space), layer.substr(space + 1));
  if (!place.stages.empty()) {
    const size_t at = static_cast<size_t>(place.stages[0]);
    if (at < header.cuts.size()) {
      place.reason += fmt::format("; stage {} begins with layer {}, at '{}'", place.stages[0],
                                  header.first_layers[at], header.cuts[at]);
    }
  }
  return place;
}

PipelinePlace PlaceInEntry(const Module& module, const Instruction* x) {
  PipelinePlace place;
  const std::string note = Note(x, kStageAttribute);
  if (note.starts_with("weight ")) {
    place.pass = "weight";
    place.stages = NumbersOf(std::string_view(note).substr(7));
    place.microbatches = "for all micro-batches";
    place.reason = "their layers use it";
    return place;
  }
  bool feeds = false, follows = false;
  for (const Instruction* other : module.entry()->instructions()) {
    if (other->opcode() != Opcode::kWhile) continue;
    if (other == x) {
      place.pass = "loop";
      place.reason = "the loop over clock ticks, in which stages run their passes";
      return place;
    }
    feeds = feeds || Reaches(other, x);
    follows = follows || Reaches(x, other);
  }
  place.pass = follows ? "after" : "before";
  if (follows) {
    place.reason = "it needs what is summed over the micro-batches, so it comes after the last";
  } else if (feeds && x->opcode() == Opcode::kParameter && x->shape()->rank() > 0) {
    place.pass = "examples";
    place.reason = "each micro-batch has rows of its own of it";
  } else if (feeds) {
    place.reason = "it is the same for every micro-batch, and computed once before the first";
  } else {
    place.reason = "no stage has to do with it";
  }
  return place;
}

}  // namespace

std::optional<StagePass> PassOf(const Computation& computation) {
  const std::string note = Note(computation.root(), kStageAttribute);
  if (note.empty() || note.starts_with("weight ")) return std::nullopt;
  StagePass pass;
  pass.pass = note.substr(0, note.find(' '));
  if (pass.pass.size() < note.size())
    pass.stages = NumbersOf(std::string_view(note).substr(pass.pass.size() + 1));
  return pass;
}

std::optional<PipelinePlace> PlaceInPipeline(const Module& module, const Instruction* x) {
  const Header header(module);
  if (!header.is_there()) return std::nullopt;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* other : computation->instructions()) {
      if (other != x) continue;
      if (const Computation* pass = PassAround(module, computation)) {
        return PlaceInPass(header, *PassOf(*pass), x);
      }
      if (computation == module.entry()) return PlaceInEntry(module, x);
      PipelinePlace place;
      place.pass = "loop";
      place.reason =
          "it looks up what a device does at a tick, or exchanges values with the neighbours";
      return place;
    }
  }
  return std::nullopt;
}

std::vector<const Instruction*> CopiesInPasses(const Module& module, std::string_view name) {
  if (!Header(module).is_there()) return {};
  auto is_copy = [&](std::string_view other) {
    if (!other.starts_with(name)) return false;
    other.remove_prefix(name.size());
    constexpr std::string_view kAgain = ".remat";
    const bool again = other.starts_with(kAgain);
    if (again) other.remove_prefix(kAgain.size());
    if (other.empty()) return again;
    return other.size() > 1 && other[0] == '.' &&
           other.find_first_not_of("0123456789", 1) == std::string_view::npos;
  };
  std::vector<const Instruction*> copies;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!Note(x, kLayerAttribute).empty() && is_copy(x->name())) copies.push_back(x);
    }
  }
  return copies;
}

std::string ToText(const PipelinePlace& place, const Instruction* x) {
  std::string text = fmt::format("{} is of ", x->name());
  const std::string stages =
      fmt::format("stage{} {}", place.stages.size() == 1 ? "" : "s", fmt::join(place.stages, ", "));
  if (place.pass == "weight") {
    text += fmt::format("{}: a weight", stages);
  } else if (!place.stages.empty()) {
    text += fmt::format("{}: {} pass, {}", stages,
                        place.pass == "weight_gradients" ? "weight gradient" : place.pass,
                        place.microbatches);
  } else {
    text += fmt::format("no stage in particular: {}", place.pass);
  }
  text += "\n";
  if (!place.layers.empty()) {
    text += fmt::format("  layer{} {}: {}\n", place.layers.size() == 1 ? "" : "s",
                        fmt::join(place.layers, ", "), place.reason);
  } else {
    text += fmt::format("  {}\n", place.reason);
  }
  return text;
}

Json ToJson(const PipelinePlace& place) {
  Json stages = Json::Array(), layers = Json::Array();
  for (int64_t v : place.stages) stages.Append(v);
  for (int64_t layer : place.layers) layers.Append(layer);
  return {{"stages", std::move(stages)},
          {"pass", place.pass},
          {"microbatches", place.microbatches},
          {"layers", std::move(layers)},
          {"reason", place.reason}};
}

}  // namespace gshard
