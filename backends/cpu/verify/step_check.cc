// The mesh gives its values, put together; the unpartitioned graph compares its own and goes on
// with the mesh's.
#include "backends/cpu/verify/step_check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/run/workers.h"
#include "backends/cpu/verify/analysis/chain_ends.h"
#include "backends/cpu/verify/analysis/dot_checksums.h"
#include "backends/cpu/verify/analysis/error_scale.h"
#include "backends/cpu/verify/analysis/graph_walk.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/paired_run.h"
#include "backends/cpu/verify/parameter_magnitudes.h"
#include "backends/cpu/verify/step_rule.h"
#include "backends/cpu/verify/value_exchange.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kPieceElements = 16384;  // looked at together; no task is smaller
// A 16-bit float that is rounded once differs from another way to the same number by no more units
// in the last place of the largest one.
constexpr double kUnsuspiciousUlps = 1;

// What the unpartitioned graph shows, in this order: the candidates, the choices (null: none are
// kept), two sums of each checksum.
struct ShownValues {
  std::span<const Candidate> candidates;
  KeptChoices* choices = nullptr;
  std::span<const DotChecksum> checksums;
  std::function<std::vector<double>()> parameter_magnitudes;  // asked for once at most
};

// The unpartitioned graph: compares, and goes on with the mesh's values. Probes are those of
// `shown`.
class StepChecker final : public ProbeObserver {
 public:
  StepChecker(const Module& whole, const Module& partitioned, const ShownValues& shown,
              ValueExchange& exchange, const InstructionsOptions& options, StepCheckResult& result)
      : candidates_(shown.candidates),
        checksums_(shown.checksums),
        exchange_(exchange),
        result_(result),
        choices_(shown.choices),
        right_when_widened_(options.right_when_widened),
        workers_(options.mesh.threads),
        scale_(whole),
        rules_(StepRulesOf(whole, partitioned, candidates_)),
        states_(whole.instruction_limit(), State::kKnown),
        was_judged_(candidates_.size(), 0),
        rounding_(candidates_.size(), 0),
        iterations_(candidates_.size(), 0),
        open_(candidates_.size()),
        checksum_of_(candidates_.size()),
        products_(checksums_.size()),
        parameter_magnitudes_(shown.parameter_magnitudes) {
    if (choices_ != nullptr) shown_choices_.resize(choices_->shown().candidates.size());
    for (size_t i = 0; i < checksums_.size(); ++i) checksum_of_[checksums_[i].candidate] = i;
  }

  bool Prepare(std::span<const uint32_t> probes) override {
    if (is_done()) return false;
    std::vector<uint32_t> wanted;
    for (uint32_t probe : probes) {
      if (!IsOfArray(probe)) continue;
      open_[probe].shown.clear();
      if (candidates_[probe].Wants(iterations_[probe]++, true)) wanted.push_back(probe);
    }
    std::vector<std::optional<WholeValue>> values = exchange_.Take(wanted);
    for (size_t i = 0; i < wanted.size(); ++i) open_[wanted[i]].mesh = std::move(values[i]);
    return true;
  }

  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t) override {
    if (part != 0) return;
    const std::lock_guard lock(mutex_);
    if (IsOfChecksum(probe)) {
      sums_ = data;
      return;
    }
    if (IsOfChoice(probe)) {
      shown_choices_[NumberOfChoice(probe)] = data;
      return;
    }
    open_[probe].shown.emplace_back(c, data);
  }

  void Finish(std::span<const uint32_t> probes) override {
    for (uint32_t probe : probes) {
      if (IsOfChecksum(probe)) {
        if (!is_done()) TakeSums(NumberOfSums(probe));
        continue;
      }
      if (IsOfChoice(probe)) {
        Keep(NumberOfChoice(probe));
        continue;
      }
      Open& open = open_[probe];
      const bool known = open.mesh && !open.mesh->data.empty() && !open.shown.empty();
      State& state = states_[candidates_[probe].x->id()];
      state = !known ? State::kUnknown : open.mesh->other.empty() ? State::kKnown : State::kVaries;
      if (checksum_of_[probe]) {
        needs_more_ = needs_more_ || state != State::kKnown;
        if (!is_done()) TakeUnseen(probe);
      } else if (known && !is_done()) {
        Compare(probe);
      }
      if (open.mesh && !open.mesh->data.empty()) exchange_.Return(open.mesh->data);
      open.mesh.reset();
    }
  }

  // Nothing more is to be known.
  bool is_done() const { return result_.fault.has_value() || needs_more_; }
  // The end of a chain differs by more than its rule allows, or the sums of a product: all arrays
  // are to tell.
  bool needs_more() const { return needs_more_; }
  // Has the graph never gone on with another value than its own?
  bool went_its_own_way() const { return !took_another_; }
  // By instruction id.
  std::vector<uint8_t> IsRight() const {
    std::vector<uint8_t> is_right(states_.size(), 0);
    for (size_t probe = 0; probe < candidates_.size(); ++probe) {
      is_right[candidates_[probe].x->id()] = was_judged_[probe];
    }
    return is_right;
  }
  // What short sums of this array's step may be off by; 0: it has none, or was not judged.
  double RoundingOf(size_t probe) const { return was_judged_[probe] != 0 ? rounding_[probe] : 0; }
  // Arrays that were judged at least once, and those inside of chains that end in them.
  int64_t arrays() const {
    int64_t count = 0;
    for (size_t probe = 0; probe < candidates_.size(); ++probe) {
      if (was_judged_[probe] != 0) count += 1 + candidates_[probe].stands_for;
    }
    return count;
  }

 private:
  struct Open {
    std::optional<WholeValue> mesh;
    std::vector<std::pair<uint32_t, std::byte*>> shown;  // by class of devices
  };

  // Compared by sums.
  struct Product {
    double magnitude = 0;         // of the largest element
    double allowed = 0;           // what an element may be off by
    std::vector<std::byte> sums;  // of the product, until those of its operands are there
  };

  // What the graph goes on with of a compared array.
  enum class State : uint8_t {
    kKnown,    // the mesh's value
    kVaries,   // one of those that the mesh's devices have
    kUnknown,  // its own
  };

  bool IsOfArray(uint32_t probe) const { return probe < candidates_.size(); }
  bool IsOfChecksum(uint32_t probe) const {
    return probe >= candidates_.size() + shown_choices_.size();
  }
  bool IsOfChoice(uint32_t probe) const { return !IsOfArray(probe) && !IsOfChecksum(probe); }
  uint32_t NumberOfChoice(uint32_t probe) const {
    return probe - static_cast<uint32_t>(candidates_.size());
  }

  uint32_t NumberOfSums(uint32_t probe) const {
    return probe - static_cast<uint32_t>(candidates_.size() + shown_choices_.size());
  }

  void Keep(uint32_t probe) {
    if (took_another_ && shown_choices_[probe] != nullptr) {
      choices_->Keep(probe, shown_choices_[probe]);
    } else {
      choices_->Skip(probe);
    }
  }

  bool AnyAnchor(const StepRule& rule, State state) const {
    return std::any_of(rule.anchors.begin(), rule.anchors.end(),
                       [&](const Instruction* a) { return states_[a->id()] == state; });
  }

  // Calls look(first, count, piece) for the pieces of so many elements, in parallel.
  template <typename Look>
  void ForEachPiece(int64_t elements, int64_t element_bytes, Look look) {
    const int64_t pieces = PiecesOf(elements);
    workers_.For(pieces, elements * element_bytes, [&](int64_t piece, int) {
      const int64_t first = piece * kPieceElements;
      look(first, std::min(kPieceElements, elements - first), static_cast<size_t>(piece));
    });
  }
  static int64_t PiecesOf(int64_t elements) {
    return (elements + kPieceElements - 1) / kPieceElements;
  }

  // The largest magnitude of the reference's array; and which of its pieces differ from the mesh's.
  double LookAt(DType dtype, const std::byte* want, const std::byte* mesh, int64_t elements,
                std::vector<uint8_t>& differs) {
    const int64_t bytes = StorageBytes(dtype);
    differs.assign(static_cast<size_t>(PiecesOf(elements)), 0);
    std::vector<double> largest(differs.size(), 0);
    ForEachPiece(elements, bytes, [&](int64_t first, int64_t count, size_t piece) {
      const ArraysLook look =
          LookAtArrays(dtype, want + first * bytes, mesh + first * bytes, count);
      largest[piece] = look.magnitude;
      differs[piece] = look.differs ? 1 : 0;
    });
    return elements == 0 ? 0 : *std::max_element(largest.begin(), largest.end());
  }

  // Of the pieces that `differs` names.
  RowError ErrorOf(DType dtype, const std::byte* mesh, const std::byte* want, int64_t elements,
                   const std::vector<uint8_t>& differs, bool exact, double allowed) {
    const int64_t bytes = StorageBytes(dtype);
    std::vector<RowError> errors(differs.size());
    ForEachPiece(elements, bytes, [&](int64_t first, int64_t count, size_t piece) {
      if (differs[piece] == 0) return;
      const std::byte *a = mesh + first * bytes, *b = want + first * bytes;
      if (exact) {
        CompareRowInUlps(dtype, a, b, count, kStepUlps, errors[piece]);
        errors[piece].at += first;
      } else {
        CompareRow(dtype, a, b, count, allowed, first, errors[piece]);
      }
    });
    RowError all;
    for (const RowError& error : errors) {
      all.beyond += error.beyond;
      if (error.largest <= all.largest) continue;
      all.largest = error.largest;
      all.at = error.at;
    }
    return all;
  }

  void Compare(uint32_t probe) {
    const Open& open = open_[probe];
    const Instruction& x = *candidates_[probe].x;
    const StepRule& rule = rules_[probe];
    const DType dtype = x.shape()->dtype();
    const int64_t elements = x.shape()->element_count();
    const auto lowest = std::min_element(open.shown.begin(), open.shown.end());
    const std::span<const std::byte> want(lowest->second, open.mesh->data.size());
    std::vector<uint8_t> differs;
    const double magnitude = LookAt(dtype, want.data(), open.mesh->data.data(), elements, differs);
    double allowed = AllowedError(probe, magnitude);
    const bool exact = rule.is_one_operation && !AnyAnchor(rule, State::kVaries);
    const bool sure = !AnyAnchor(rule, State::kUnknown) && !rule.may_flip;
    const bool bounded = !(rule.spans_steps && IsRightWhenWidened(x));
    bool agrees = true;
    for (std::span<const std::byte> mesh : {std::span<const std::byte>(open.mesh->data),
                                            std::span<const std::byte>(open.mesh->other)}) {
      if (mesh.empty() || !agrees) continue;
      const bool is_other = mesh.data() == open.mesh->other.data();
      const std::vector<uint8_t> pieces =
          is_other ? std::vector<uint8_t>(differs.size(), 1) : differs;
      RowError error = ErrorOf(dtype, mesh.data(), want.data(), elements, pieces, exact, allowed);
      if (error.beyond > 0 && !exact && MayHaveLargerTerms(probe) && LookAtParameters()) {
        allowed = AllowedError(probe, magnitude);
        error = ErrorOf(dtype, mesh.data(), want.data(), elements, pieces, exact, allowed);
      }
      NoteLargest(probe, magnitude, error);
      agrees = error.beyond == 0;
      NoteSuspect(rule, magnitude, error);
      needs_more_ = !agrees && candidates_[probe].ends_chain;
      if (needs_more_) return;
      if (agrees || !sure || !bounded) continue;
      // Where all is to be equal, what differs is told from what does not by less.
      NoteFault(probe, mesh, want, error, exact ? std::min(allowed, error.largest / 8) : allowed);
      return;
    }
    if (agrees) {
      NoteRight(probe);
    } else {
      ++(sure ? result_.right_in_f64 : result_.unsettled);
    }
    scale_.Observe(x, 0, 1);
    GoOnWithTheMesh(open, *lowest, elements, StorageBytes(dtype), differs);
  }

  void NoteSuspect(const StepRule& rule, double magnitude, const RowError& error) {
    if (rule.short_roundoff == 0 || error.largest == 0) return;
    const double unit =
        magnitude > 0 ? std::ldexp(2 * rule.short_roundoff, std::ilogb(magnitude)) : 0;
    result_.is_suspect = result_.is_suspect || error.largest > kUnsuspiciousUlps * unit;
  }

  void NoteRight(size_t probe) {
    was_judged_[probe] = 1;
    result_.judged += 1 + candidates_[probe].stands_for;
  }

  // The mesh's product, which the graph has not computed: its sums will tell.
  void TakeUnseen(uint32_t probe) {
    const Open& open = open_[probe];
    const Instruction& x = *candidates_[probe].x;
    const DType dtype = x.shape()->dtype();
    const int64_t elements = x.shape()->element_count();
    const std::byte* mesh = open.mesh->data.data();
    std::vector<uint8_t> differs;
    Product& product = products_[*checksum_of_[probe]];
    product.magnitude = LookAt(dtype, mesh, mesh, elements, differs);
    product.allowed = AllowedError(probe, product.magnitude);
    scale_.Observe(x, 0, 1);
    std::ranges::fill(differs, uint8_t{1});
    GoOnWithTheMesh(open, open.shown.front(), elements, StorageBytes(dtype), differs);
  }

  // Those of the product, then those of its operands.
  void TakeSums(uint32_t number) {
    const DotChecksum& checksum = checksums_[number / 2];
    Product& product = products_[number / 2];
    const Shape& shape = *checksum.of_product.shown->shape();
    const auto bytes = static_cast<size_t>(BufferBytes(&shape));
    if (number % 2 == 0) {
      product.sums.assign(sums_, sums_ + bytes);
      return;
    }
    const size_t probe = checksum.candidate;
    RowError error;
    const std::vector<std::byte> of_product = std::exchange(product.sums, {});
    CheckInternal(of_product.size() == bytes, "sums of operands before those of their product");
    CompareRow(shape.dtype(), of_product.data(), sums_, shape.element_count(),
               product.allowed * checksum.growth, 0, error);
    error.largest /= checksum.growth;
    NoteLargest(probe, product.magnitude, error);
    needs_more_ = error.beyond > 0;
    if (!needs_more_) NoteRight(probe);
  }

  // Sums in f16 and bf16 that differ are judged in double precision, and what a chain ends in is
  // judged once more among all arrays: parameters do not count there.
  bool MayHaveLargerTerms(uint32_t probe) const {
    return rules_[probe].short_roundoff == 0 && !candidates_[probe].ends_chain;
  }

  // How large terms are that were made of parameters is known from then on. False: it was before.
  bool LookAtParameters() {
    if (std::exchange(knows_parameters_, true)) return false;
    scale_.SetParameters(parameter_magnitudes_());
    return true;
  }

  // What is inside of a chain has no scale of its own.
  double AllowedError(uint32_t probe, double magnitude) {
    const double scale = scale_.Of(*candidates_[probe].x, magnitude);
    double allowed = rules_[probe].tolerance * (candidates_[probe].ends_chain ? magnitude : scale);
    const double of_sums = rules_[probe].short_sums * scale;
    if (IsRightWhenWidened(*candidates_[probe].x)) {
      allowed = std::max(allowed, of_sums);
    }
    rounding_[probe] = std::max(rounding_[probe], of_sums);
    return allowed + kSmallestAllowed;
  }

  bool IsRightWhenWidened(const Instruction& x) const {
    return x.id() < right_when_widened_.size() && right_when_widened_[x.id()] != 0;
  }

  void GoOnWithTheMesh(const Open& open, const std::pair<uint32_t, std::byte*>& lowest,
                       int64_t elements, int64_t bytes, const std::vector<uint8_t>& differs) {
    const std::byte* mesh = open.mesh->data.data();
    for (const auto& [c, data] : open.shown) {
      std::byte* to = data;
      const bool is_known = to == lowest.second;
      ForEachPiece(elements, bytes, [&](int64_t first, int64_t count, size_t piece) {
        if (is_known && differs[piece] == 0) return;
        const auto length = static_cast<size_t>(count * bytes);
        const int64_t at = first * bytes;
        if (!is_known && std::memcmp(to + at, mesh + at, length) == 0) return;
        took_another_ = true;
        std::memcpy(to + at, mesh + at, length);
      });
    }
  }

  void NoteLargest(size_t probe, double magnitude, const RowError& error) {
    const double relative = magnitude > 0 ? error.largest / magnitude : error.largest;
    if (relative <= result_.max_rel_error) return;
    result_.max_rel_error = relative;
    result_.worst = candidates_[probe].form->name;
  }

  void NoteFault(uint32_t probe, std::span<const std::byte> mesh, std::span<const std::byte> want,
                 const RowError& error, double allowed) {
    const Candidate& candidate = candidates_[probe];
    const Shape* shape = candidate.x->shape();
    StepCheckResult::Fault& fault = result_.fault.emplace(StepCheckResult::Fault());
    fault.x = candidate.x;
    fault.form = candidate.form;
    fault.iteration = iterations_[probe] - 1;
    fault.error = error.largest;
    fault.allowed = allowed;
    fault.may_be_rounding = rules_[probe].short_roundoff > 0 || rules_[probe].spans_steps;
    fault.want.dtype = shape->dtype();
    fault.want.dims.assign(shape->dims().begin(), shape->dims().end());
    fault.want.data.assign(want.begin(), want.end());
    fault.mismatch =
        MismatchAt(shape->dtype(), shape->dims(), want.data(), error.at, 0, mesh.data(), error.at);
    fault.mismatch.name = candidate.form->name;
    fault.mismatch.differences = error.beyond;
    fault.mismatch.elements = shape->element_count();
    fault.reference_varies =
        std::any_of(open_[probe].shown.begin(), open_[probe].shown.end(), [&](const auto& shown) {
          return std::memcmp(shown.second, want.data(), want.size()) != 0;
        });
  }

  std::span<const Candidate> candidates_;
  std::span<const DotChecksum> checksums_;
  ValueExchange& exchange_;
  StepCheckResult& result_;
  KeptChoices* choices_;                               // null: none are kept
  const std::span<const uint8_t> right_when_widened_;  // by instruction id
  std::vector<std::byte*> shown_choices_;              // by probe of `choices`
  Workers workers_;
  ErrorScale scale_;
  const std::vector<StepRule> rules_;  // by probe
  std::vector<State> states_;          // by instruction id
  std::vector<uint8_t> was_judged_;    // by probe
  std::vector<double> rounding_;       // by probe: what short sums of it may be off by
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;
  std::vector<std::optional<size_t>> checksum_of_;  // by probe; nothing: elements are compared
  std::vector<Product> products_;                   // by checksum
  const std::byte* sums_ = nullptr;                 // shown last
  std::mutex mutex_;
  std::atomic<bool> took_another_ = false;
  bool needs_more_ = false;
  const std::function<std::vector<double>()> parameter_magnitudes_;
  bool knows_parameters_ = false;
};

class LocalChecker {
 public:
  // `by_checksums`: large products are compared by checksums.
  LocalChecker(const Module& whole, const Module& partitioned, const Inputs& inputs,
               const InstructionsOptions& options, std::vector<Candidate> candidates,
               std::unique_ptr<KeptChoices> choices, bool by_checksums)
      : whole_module_(whole),
        options_(options),
        by_checksums_(by_checksums),
        inputs_(inputs),
        partitioned_(partitioned),
        candidates_(std::move(candidates)),
        choices_(std::move(choices)) {}

  // Nothing: to be done again with all arrays, each computed. `kept`: see CheckSteps.
  Expected<std::optional<StepCheckResult>> Run(StepCheckRuns* kept) {
    std::vector<ProbePoint> whole_probes = WholeProbes(candidates_);
    if (choices_ != nullptr) {
      const std::vector<ProbePoint>& more = choices_->shown().whole_probes;
      whole_probes.insert(whole_probes.end(), more.begin(), more.end());
    }
    const std::vector<ProbePoint> local_probes = LocalProbes(candidates_, partitioned_);
    std::optional<ChecksummedGraph> checked;
    if (by_checksums_) checked = ChecksumDots(whole_module_, candidates_, whole_probes);
    std::span<const DotChecksum> checksums;
    if (checked) {
      checksums = checked->checksums;
      whole_probes = checked->probes;
      for (const DotChecksum& checksum : checksums) {
        whole_probes.push_back(checksum.of_product);
        whole_probes.push_back(checksum.of_operands);
      }
    }
    PairedRun runs;
    runs.options = &options_;
    runs.candidates = candidates_;
    runs.progress = options_.progress;
    GSHARD_TRY(runs.Prepare(checked ? *checked->module : whole_module_, whole_probes, partitioned_,
                            local_probes, inputs_, /*at_once=*/true));
    result_.no_room = std::move(runs.no_room);
    if (!result_.no_room.empty()) return std::move(result_);
    const auto magnitudes = [&] {
      return ParameterMagnitudes(whole_module_, inputs_, options_.whole_grid);
    };
    const ShownValues shown = {candidates_, choices_.get(), checksums, magnitudes};
    StepChecker checker(whole_module_, partitioned_, shown, *runs.exchange, options_, result_);
    GSHARD_TRY(runs.Run(checker, [&] { return checker.is_done(); }));
    if (checker.needs_more()) return std::nullopt;
    result_.peak_memory_bytes = runs.peak_memory_bytes();
    if (choices_ != nullptr) result_.peak_memory_bytes += choices_->peak_bytes();
    result_.arrays = checker.arrays();
    NoteOutputRoundings(checker);
    result_.is_right = checker.IsRight();
    if (result_.fault) return std::move(result_);
    const auto compared = GSHARD_TRY(runs.CompareOutputs(whole_module_, partitioned_, inputs_, {}));
    result_.outputs_agree = compared.ok && compared.discrete_differences == 0;
    result_.output_mismatch = compared.mismatch;
    if (kept != nullptr) {
      if (checker.went_its_own_way()) kept->outputs = runs.Outputs();
      kept->mesh_time_s = runs.mesh_time_s;
      kept->mesh = std::move(runs.mesh);
      if (choices_ != nullptr && !choices_->IsEmpty()) kept->choices = std::move(choices_);
    }
    return std::move(result_);
  }

 private:
  void NoteOutputRoundings(const StepChecker& checker) {
    const Instruction* root = whole_module_.entry()->root();
    std::vector<const Instruction*> outputs = {root};
    if (root->opcode() == Opcode::kTuple) {
      outputs.assign(root->operands().begin(), root->operands().end());
    }
    for (const Instruction* output : outputs) {
      double rounding = 0;
      for (const Instruction* x = output; x != nullptr && rounding == 0; x = SameNumbers(*x)) {
        const auto found = std::ranges::find(candidates_, x, &Candidate::x);
        if (found == candidates_.end()) continue;
        rounding = checker.RoundingOf(static_cast<size_t>(found - candidates_.begin()));
      }
      result_.output_roundings.push_back(rounding);
    }
  }
  // What x has the elements of, in another type or place; null: x computes.
  static const Instruction* SameNumbers(const Instruction& x) {
    const Instruction* from = x.opcode() == Opcode::kConvert ? x.operand(0) : MovedFrom(x);
    return from != nullptr && from->shape()->IsArray() ? from : nullptr;
  }

  const Module& whole_module_;
  const InstructionsOptions& options_;
  const bool by_checksums_;
  const Inputs& inputs_;
  const Module& partitioned_;
  std::vector<Candidate> candidates_;
  std::unique_ptr<KeptChoices> choices_;
  StepCheckResult result_;
};

}  // namespace

Expected<StepCheckResult> CheckSteps(const Module& whole, const Module& partitioned,
                                     std::span<const LocalForm> forms, const Inputs& inputs,
                                     const InstructionsOptions& options, StepCheckRuns* runs) {
  ComparedArrays arrays = CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
  const auto choices_to_keep = [&]() -> std::unique_ptr<KeptChoices> {
    if (runs == nullptr || options.whole_grid.device_count() != 1) return nullptr;
    ShownChoices shown = FindShownChoices(whole, partitioned, arrays.candidates);
    if (shown.choices.empty() || BytesToKeep(whole, shown) > runs->most_kept_bytes) return nullptr;
    return std::make_unique<KeptChoices>(std::move(shown), runs->most_kept_bytes);
  };
  const auto check = [&](std::vector<Candidate> candidates, bool by_checksums) {
    // Both graphs have the same parameters, the unpartitioned one all of them at its beginning: it
    // would wait for those that the mesh shows late.
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return candidate.x->opcode() == Opcode::kParameter;
    });
    return LocalChecker(whole, partitioned, inputs, options, std::move(candidates),
                        choices_to_keep(), by_checksums)
        .Run(runs);
  };
  // What short sums may round shows in all arrays: what a chain ends in has no scale of its terms.
  Expected<std::optional<StepCheckResult>> result = std::optional<StepCheckResult>();
  if (options.right_when_widened.empty()) {
    result = check(ChainEnds(arrays.candidates), options.whole_grid.device_count() == 1);
  }
  if (result && !*result) result = check(arrays.candidates, false);
  if (!result) return Fail(result.error());
  (*result)->left_out = arrays.left_out;
  return **std::move(result);
}

}  // namespace gshard::cpu
