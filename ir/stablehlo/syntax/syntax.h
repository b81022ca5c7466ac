// StableHLO text as it is written: operations with named attributes, values and regions, before
// any of it has a meaning. The pretty and the generic form of an operation give the same tree.
//
// The tree lives in the arena of its Program; views point into the source text. It is read once by
// the importer (ir/stablehlo/import/importer.h) and then dropped.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_SYNTAX_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_SYNTAX_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/arena.h"
#include "ir/diagnostic.h"
#include "ir/instruction.h"
#include "ir/text_hash.h"
#include "tsl/robin_map.h"

namespace gshard::stablehlo {

struct Operation;
struct OpRow;

// `key = value`, the value verbatim; a unit attribute has an empty value. What a pretty form writes
// without a key has "#0", "#1", .. for one.
struct NamedAttribute {
  std::string_view key, value;
};

// A result of an operation or an argument of a block.
struct Value {
  std::string_view name;        // "arg0" of %arg0, "5" of %5#1
  const Shape* type = nullptr;  // as written; null: an operation whose types are not written
  const Operation* definition = nullptr;  // null: an argument
  uint32_t index = 0;                     // among its operation's results
  uint32_t depth = 0;                     // nesting of the region that defines it
  SourceRange source;
  std::string_view location;           // of an argument: what stands in loc(..)
  Instruction* instruction = nullptr;  // set by the importer
};

struct Region {
  std::span<Value> arguments;
  std::span<Operation* const> operations;  // the last one is the terminator
  std::span<Value* const> captures;        // values of scopes around it, each once
  SourceRange source;
};

struct Operation {
  std::string_view name;               // "stablehlo.add"
  SourceRange source;                  // its name in the text
  mutable const OpRow* row = nullptr;  // set by the importer; null: not looked at, or unknown
  std::span<Value* const> operands;
  // How many of them are in the first of two lists, where a pretty form has two; else -1.
  int64_t leading_operands = -1;
  std::span<const Shape* const> operand_types;  // empty if they are not written
  std::span<Value> results;
  std::span<const NamedAttribute> attributes;
  std::span<Region* const> regions;
  std::string_view location;  // what stands in loc(..)
};

struct Function {
  std::string_view name;
  bool is_public = false;
  Region* body = nullptr;                                                // null: declared only
  std::span<const std::span<const NamedAttribute>> argument_attributes;  // one per argument
  std::span<const Shape* const> results;
  std::span<const std::span<const NamedAttribute>> result_attributes;  // one per result
  SourceRange source;
};

template <typename T>
using ViewMap = tsl::robin_map<std::string_view, T, TextHash>;

struct Program {
  Arena arena;
  std::string_view name;
  std::vector<NamedAttribute> attributes;
  std::vector<NamedAttribute> meshes;  // name -> `<["x"=2]>`
  std::vector<Function*> functions;    // in text order
  ViewMap<Function*> function_of;
  ViewMap<std::string_view> aliases;    // "#loc3" -> `loc("x")`
  ViewMap<std::string_view> resources;  // of dialect_resources: key -> `"0x.."`
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_SYNTAX_H_
