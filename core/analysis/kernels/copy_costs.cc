#include "core/analysis/kernels/copy_costs.h"

#include <algorithm>

#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

// Did the compiler put the cast there?
bool IsRounding(const Instruction* x) {
  return x->opcode() == Opcode::kConvert &&
         x->frontend_attributes().find(kRoundingAttribute) != std::string_view::npos;
}

double BytesOf(const Instruction* x) { return static_cast<double>(x->shape()->byte_size()); }

}  // namespace

// A kernel takes the longer of its bytes and its work on vectors. What follows of the matrix unit
// does not count. Chains start up to six operations late, beside loads and stores; what a product
// reads is packed, in two more of 32 bits.
CopyCost CopyCosts::Of(const Instruction* x, const CopiedChain& chain,
                       KernelDrafts::KernelList kernels) {
  const double written = BytesOf(IsRounding(x) ? x->operand(0) : x);
  const auto work = [&](double operations) {
    if (vector_operations_per_byte_ <= 0) return 0.0;
    return std::max(0.0, operations) * static_cast<double>(x->shape()->element_count()) /
           vector_operations_per_byte_;
  };
  const auto read = static_cast<double>(chain.source_bytes);
  const double product = chain.product != nullptr ? BytesOf(chain.product) : 0;
  CopyCost cost;
  const double copied = work(chain.operations + (chain.is_wide ? 2 : -3));
  if (chain.sources.empty() && copied <= written) {
    // No kernel takes longer for it than for reading x, whatever else it does.
    cost.apart = written;
    return cost;
  }
  // In the product's kernel, which writes it instead of the product.
  cost.apart = std::max(read - product + written, work(chain.operations - 6));
  cost.together = product;
  for (const int32_t kernel : kernels) {
    const Instruction* root = drafts_[kernel].kernel.root;
    double others = root->shape()->IsArray() ? BytesOf(root) : 0;
    const Values& read_anyway = OtherSources(kernel, x);
    for (const Instruction* source : read_anyway) others += BytesOf(source);
    double more = 0;
    for (const Instruction* source : chain.sources) {
      const bool is_read =
          chain.product == nullptr && std::ranges::find(read_anyway, source) != read_anyway.end();
      if (!is_read) more += BytesOf(source);
    }
    cost.apart += others + written;
    cost.together += std::max(others + more, copied);
  }
  return cost;
}

const CopyCosts::Values& CopyCosts::OtherSources(int32_t kernel, const Instruction* x) {
  int left = 31;  // values that are looked at
  sources_.clear();
  open_.clear();
  drafts_.StartSearch();
  drafts_.Visit(x);
  const auto is_large = [&](const Instruction* operand) {
    return operand->shape()->IsArray() && operand->shape()->rank() > 0 &&
           8 * operand->shape()->byte_size() > x->shape()->byte_size();
  };
  const auto visit = [&](const Instruction* operand) {
    if (!is_large(operand) || !drafts_.Visit(operand)) return;
    open_.push_back(operand);
    --left;
  };
  drafts_.UpdateReads(kernel);
  const KernelDraft& draft = drafts_[kernel];
  for (const KernelReads* reads : {&draft.of_members, &draft.of_copies}) {
    for (const Instruction* array : reads->arrays) visit(array);
  }
  while (!open_.empty() && left > 0) {
    const Instruction* value = open_.back();
    open_.pop_back();
    const KernelKind& kind = drafts_.kind(value);
    const bool is_chain = kind.is_alias || kind.role == KernelRole::kElementwise ||
                          value->opcode() == Opcode::kBroadcast;
    if (is_chain) {
      for (const Instruction* operand : value->operands()) visit(operand);
    } else if (kind.role != KernelRole::kCheap) {
      sources_.push_back(value);
    }
  }
  return sources_;
}

bool CopyCosts::ReadsNoMore(const Instruction* x, KernelRole role) {
  const int64_t made = x->shape()->byte_size();
  int64_t read = 0;
  counted_.clear();
  for (const Instruction* operand : x->operands()) {
    if (std::ranges::find(counted_, operand) != counted_.end()) continue;
    counted_.push_back(operand);
    const bool is_sliced = role == KernelRole::kMovement && operand == x->operand(0) &&
                           x->opcode() != Opcode::kConcatenate;
    while (operand->opcode() == Opcode::kBroadcast) operand = operand->operand(0);
    const bool is_made = operand->opcode() == Opcode::kIota || operand->shape()->rank() == 0;
    read += is_sliced ? made : is_made ? 0 : operand->shape()->byte_size();
  }
  return read <= made + made / 8;
}

}  // namespace gshard
