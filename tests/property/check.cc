// The oracles.
#include "tests/property/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/emulate.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/verify.h"
#include "core/analysis/partitioned.h"
#include "core/check/communication_check.h"
#include "core/propagation/propagation.h"
#include "core/spmd/per_device_module.h"
#include "ir/literal.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/ranks_in_process.h"
#include "tests/reference/reference.h"

namespace gshard::property {
namespace {

using cpu::GlobalArray;
using cpu::MeshRun;
using cpu::OutputArray;

// Thrown inside this file only: ends a check.
struct Ended {
  Verdict verdict;
};

[[noreturn]] void Failed(std::string failure, std::string detail) {
  throw Ended{{Verdict::Kind::kFailed, std::move(failure), std::move(detail), {}}};
}

[[noreturn]] void Failed(const std::string& stage, const Diagnostic& error) {
  if (error.code == "E-RUN-003") {
    throw Ended{{Verdict::Kind::kSkipped, error.message, Render(error), {}}};
  }
  Failed(fmt::format("{}: {}", stage, error.code), Render(error));
}

template <typename T>
T Need(const std::string& stage, Expected<T> value) {
  if (!value) Failed(stage, value.error());
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

// Of a program that runs: nothing in its communication is an alarm.
void ExpectNoFindings(const Module& module) {
  const CommunicationCheck check = CheckCommunication(module, CountDevices(module));
  if (check.findings.empty()) return;
  const Diagnostic& finding = check.findings[0].diagnostic;
  Failed(fmt::format("false alarm: {}", finding.code), Render(finding));
}

std::unique_ptr<Module> Parse(const std::string& stage, const std::string& text,
                              std::shared_ptr<Context> context = nullptr) {
  auto module = Need(stage, ParseModule(SourceText::FromString(stage, text), std::move(context)));
  Need(stage, VerifyModule(*module));
  return module;
}

uint64_t Scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void StoreElement(DType dtype, std::byte* out, int64_t index, int64_t value) {
  const int bytes = StorageBytes(dtype);
  std::byte* at = out + index * bytes;
  if (dtype == DType::kF32 || dtype == DType::kC64) {
    const float parts[2] = {static_cast<float>(value), static_cast<float>(1 - value)};
    std::memcpy(at, parts, static_cast<size_t>(bytes));
  } else if (dtype == DType::kF64 || dtype == DType::kC128) {
    const double parts[2] = {static_cast<double>(value), static_cast<double>(1 - value)};
    std::memcpy(at, parts, static_cast<size_t>(bytes));
  } else if (IsFloat(dtype)) {
    const uint16_t bits = EncodeSmallFloat(dtype, static_cast<double>(value));
    std::memcpy(at, &bits, static_cast<size_t>(bytes));
  } else {
    std::memcpy(at, &value, static_cast<size_t>(bytes));
  }
}

void StoreNaN(DType dtype, std::byte* out, int64_t index) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int bytes = StorageBytes(dtype);
  std::byte* at = out + index * bytes;
  if (dtype == DType::kF64) {
    std::memcpy(at, &nan, sizeof nan);
  } else if (dtype == DType::kF32) {
    const float narrow = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(at, &narrow, sizeof narrow);
  } else {
    const uint16_t bits = EncodeSmallFloat(dtype, nan);
    // Some types have none.
    if (!std::isnan(DecodeSmallFloat(dtype, bits))) return;
    std::memcpy(at, &bits, static_cast<size_t>(bytes));
  }
}

// Small integers in every type, so that sums are exact (magnitude.h knows their size).
GlobalArray MakeInput(const cpu::ParameterLeaf& leaf, const CheckOptions& options) {
  GlobalArray array;
  array.dtype = leaf.shape->dtype();
  array.dims.assign(leaf.shape->dims().begin(), leaf.shape->dims().end());
  const int64_t count = leaf.shape->element_count();
  array.data.resize(static_cast<size_t>(std::max<int64_t>(1, count * StorageBytes(array.dtype))));
  uint64_t key = Scramble(options.seed);
  for (char c : leaf.name) key = Scramble(key ^ static_cast<unsigned char>(c));
  int64_t low = -2, high = 3;
  switch (ClassOf(array.dtype)) {
    case DTypeClass::kPredicate:
      low = 0, high = 1;
      break;
    case DTypeClass::kSigned: {
      const int64_t half = int64_t{1} << std::min(DTypeBits(array.dtype) - 1, 8);
      low = std::max<int64_t>(-3, -half), high = std::min<int64_t>(9, half - 1);
      break;
    }
    case DTypeClass::kUnsigned:
      low = 0, high = std::min<int64_t>(9, (int64_t{1} << std::min(DTypeBits(array.dtype), 8)) - 1);
      break;
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = Scramble(key + static_cast<uint64_t>(i));
    StoreElement(array.dtype, array.data.data(), i,
                 low + static_cast<int64_t>(bits % static_cast<uint64_t>(high - low + 1)));
    if (options.has_nan && IsFloat(array.dtype) && bits >> 60 == 0) {
      StoreNaN(array.dtype, array.data.data(), i);
    }
  }
  return array;
}

std::vector<GlobalArray> MakeInputs(const Module& module, const CheckOptions& options) {
  std::vector<GlobalArray> arrays;
  for (const cpu::ParameterLeaf& leaf : cpu::ParameterLeaves(*module.entry())) {
    arrays.push_back(MakeInput(leaf, options));
  }
  return arrays;
}

std::complex<double> ReadElement(DType dtype, const std::byte* data, int64_t index) {
  const std::byte* at = data + index * StorageBytes(dtype);
  auto load = [&]<typename T>(T, size_t i) {
    T value;
    std::memcpy(&value, at + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  };
  switch (dtype) {
    case DType::kF32:
      return load(float{}, 0);
    case DType::kF64:
      return load(double{}, 0);
    case DType::kC64:
      return {load(float{}, 0), load(float{}, 1)};
    case DType::kC128:
      return {load(double{}, 0), load(double{}, 1)};
    case DType::kPred:
    case DType::kU1:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return load(uint8_t{}, 0);
    case DType::kS1:
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return load(int8_t{}, 0);
    case DType::kS16:
      return load(int16_t{}, 0);
    case DType::kU16:
      return load(uint16_t{}, 0);
    case DType::kS32:
      return load(int32_t{}, 0);
    case DType::kU32:
      return load(uint32_t{}, 0);
    case DType::kS64:
      return load(int64_t{}, 0);
    case DType::kU64:
      return load(uint64_t{}, 0);
    default:
      break;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(StorageBytes(dtype)));
  return DecodeSmallFloat(dtype, bits);
}

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::fabs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

bool IsNan(std::complex<double> x) { return std::isnan(x.real()) || std::isnan(x.imag()); }

// Of complex numbers the larger part's; they are NaN where one part is, as in numpy.
double Difference(std::complex<double> a, std::complex<double> b) {
  if (IsNan(a) && IsNan(b)) return 0;
  return std::max(Difference(a.real(), b.real()), Difference(a.imag(), b.imag()));
}

std::string ElementText(std::complex<double> value, DType dtype) {
  if (IsComplex(dtype)) return fmt::format("({:g}, {:g})", value.real(), value.imag());
  return fmt::format("{:.9g}", value.real());
}

// How far elements of output k may differ.
double Tolerance(const OutputArray& want, const CheckOptions& options, size_t k) {
  if (k < options.magnitudes.size()) return 4 * options.magnitudes[k].noise;
  double largest = 0;
  const auto count = static_cast<int64_t>(want.data.size()) / StorageBytes(want.dtype);
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::abs(ReadElement(want.dtype, want.data.data(), i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return cpu::ToleranceOf(want.dtype) * largest;
}

void Compare(const std::string& failure, const MeshRun& run,
             const std::vector<OutputArray>& expected, const CheckOptions& options) {
  if (run.result_count() != expected.size()) Failed(failure, "another number of outputs");
  for (size_t k = 0; k < expected.size(); ++k) {
    const OutputArray& want = expected[k];
    if (want.data.empty()) continue;
    const double allowed = Tolerance(want, options, k);
    int64_t wrong = 0, total = 0;
    std::string first;
    for (const MeshRun::Instance& instance : run.Instances(k)) {
      cpu::ForEachRow(instance.start, instance.sizes, want.dims,
                      [&](int64_t global, int64_t local, int64_t length) {
                        for (int64_t i = 0; i < length; ++i) {
                          ++total;
                          const auto a = ReadElement(want.dtype, instance.data, local + i);
                          const auto b = ReadElement(want.dtype, want.data.data(), global + i);
                          if (Difference(a, b) <= allowed) continue;
                          if (wrong++ > 0) continue;
                          std::vector<int64_t> index(want.dims.size());
                          int64_t rest = global + i;
                          for (size_t d = index.size(); d-- > 0; rest /= want.dims[d]) {
                            index[d] = rest % want.dims[d];
                          }
                          first =
                              fmt::format("output {} {}[{}] at [{}] on device {}: {}, expected {}",
                                          k, DTypeName(want.dtype), fmt::join(want.dims, ","),
                                          fmt::join(index, ","), instance.device,
                                          ElementText(a, want.dtype), ElementText(b, want.dtype));
                        }
                      });
    }
    if (wrong > 0)
      Failed(failure, fmt::format("{} ({} of {} elements wrong)", first, wrong, total));
  }
}

void AppendLeaves(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (!shape->IsTuple()) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape* element : shape->elements()) AppendLeaves(element, leaves);
}

// --- the reference evaluator

cpu::ReferenceValue ReferenceInput(const Shape* shape, const std::vector<GlobalArray>& arrays,
                                   size_t& next) {
  if (!shape->IsTuple()) return cpu::FromBytes(shape, arrays[next++].data);
  cpu::ReferenceValue tuple;
  tuple.shape = shape;
  for (const Shape* element : shape->elements()) {
    tuple.elements.push_back(ReferenceInput(element, arrays, next));
  }
  return tuple;
}

void AppendArrays(const cpu::ReferenceValue& value, std::vector<OutputArray>& arrays) {
  if (value.shape->IsTuple()) {
    for (const cpu::ReferenceValue& element : value.elements) AppendArrays(element, arrays);
    return;
  }
  const std::span<const int64_t> dims = value.shape->dims();
  arrays.push_back({value.shape->dtype(), {dims.begin(), dims.end()}, cpu::ToBytes(value)});
}

// Operations with random bits are not evaluated there.
bool HasReference(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kRngBitGenerator || x->opcode() == Opcode::kStochasticConvert) {
        return false;
      }
    }
  }
  return true;
}

// What kernels have computed without partitions, against loops over index tuples.
void CompareWithReference(const Module& module, const std::vector<OutputArray>& outputs,
                          const CheckOptions& options) {
  if (!HasReference(module)) return;
  const std::vector<GlobalArray> inputs = MakeInputs(module, options);
  std::vector<cpu::ReferenceValue> arguments;
  size_t next = 0;
  for (const Instruction* parameter : module.entry()->parameters()) {
    arguments.push_back(ReferenceInput(parameter->shape(), inputs, next));
  }
  std::vector<OutputArray> expected;
  AppendArrays(cpu::EvaluateReference(*module.entry(), arguments), expected);
  for (size_t k = 0; k < expected.size(); ++k) {
    const OutputArray &want = expected[k], &have = outputs[k];
    const double allowed = Tolerance(want, options, k);
    const int64_t count = static_cast<int64_t>(have.data.size()) / StorageBytes(have.dtype);
    for (int64_t i = 0; i < count; ++i) {
      const auto a = ReadElement(have.dtype, have.data.data(), i);
      const auto b = ReadElement(want.dtype, want.data.data(), i);
      if (Difference(a, b) <= allowed) continue;
      Failed("reference mismatch",
             fmt::format("output {} {}[{}], element {}: {}, expected {}", k, DTypeName(want.dtype),
                         fmt::join(want.dims, ","), i, ElementText(a, want.dtype),
                         ElementText(b, want.dtype)));
    }
  }
}

struct Run {
  std::unique_ptr<MeshRun> mesh;
  std::vector<OutputArray> Outputs() const {
    std::vector<OutputArray> outputs;
    for (size_t k = 0; k < mesh->result_count(); ++k) outputs.push_back(mesh->Output(k));
    return outputs;
  }
};

Run Execute(const std::string& stage, const Module& module, const cpu::Inputs& inputs,
            const cpu::MeshRunOptions& options) {
  Run run{Need(stage, MeshRun::Prepare(module, inputs, options))};
  Need(stage, run.mesh->Start());
  Need(stage, run.mesh->Run({}));
  return run;
}

// The default pipeline; for every other seed after all einsums that can be have become loops.
void Optimize(Module& module, uint64_t seed) {
  std::vector<const Pass*> passes = DefaultOptimizationPasses();
  if (seed % 2 == 1) passes.insert(passes.begin(), FindPass("windowed-einsum"));
  PassContext context;
  context.windowed_einsum.min_bytes = 0;
  PassManagerOptions options;
  options.verify_each = true;
  Need("optimize", RunPasses(module, passes, context, options));
}

// The line around the first place where two texts differ, of both.
std::string FirstDifference(const std::string& a, const std::string& b) {
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const size_t line = at == 0 ? 0 : a.rfind('\n', at - 1) + 1;
  return fmt::format("{}\n{}", a.substr(line, a.find('\n', at) - line),
                     b.substr(line, b.find('\n', at) - line));
}

void CheckFixpoint(const std::string& stage, const Module& module) {
  const std::string once = PrintModule(module);
  auto again = Parse(stage, once);
  const std::string twice = PrintModule(*again);
  if (once != twice) Failed(stage, FirstDifference(once, twice));
}

// Propagating again changes nothing.
void CheckIdempotence(const Module& propagated, PropagationMode mode) {
  auto again = Parse("propagated", PrintModule(propagated));
  const std::string once = PrintModule(*again);
  PropagationOptions options;
  options.mode = mode;
  Need("propagate again", PropagateShardings(*again, options));
  const std::string twice = PrintModule(*again);
  if (once != twice) Failed("propagation is not idempotent", FirstDifference(once, twice));
}

// In tiles, or one device's own.
bool IsTiled(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (!sharding->IsTuple()) return sharding->IsManual() || sharding->TileCount() > 1;
  return std::any_of(sharding->elements.begin(), sharding->elements.end(), IsTiled);
}

OpcodeSet TiledOpcodes(const Module& module) {
  OpcodeSet tiled;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      bool is_tiled = IsTiled(x->sharding());
      for (const Instruction* operand : x->operands()) is_tiled |= IsTiled(operand->sharding());
      if (is_tiled) tiled.set(static_cast<size_t>(x->opcode()));
    }
  }
  return tiled;
}

OpcodeSet Check(const std::string& text, const std::string& plain, const CheckOptions& options) {
  auto module = Parse("input", text);
  auto inputs = cpu::Inputs::FromArrays(MakeInputs(*module, options));
  cpu::MeshRunOptions whole;
  std::vector<OutputArray> expected;
  if (plain.empty()) {
    expected = Execute("whole run", *module, *inputs, whole).Outputs();
  } else {
    auto single = Parse("plain", plain);
    auto same = cpu::Inputs::FromArrays(MakeInputs(*single, options));
    expected = Execute("whole run", *single, *same, whole).Outputs();
    if (options.thorough) CompareWithReference(*single, expected, options);
  }

  cpu::MeshRunOptions mesh;
  mesh.grid.partitions = static_cast<uint32_t>(module->DeviceCount());
  for (const Instruction* parameter : module->entry()->parameters()) {
    AppendLeaves(parameter->shape(), mesh.global_parameters);
  }
  AppendLeaves(module->entry()->root()->shape(), mesh.global_results);
  auto partitioned = module->Clone();
  OpcodeSet tiled;
  PassContext context;
  context.propagation.mode = options.mode;
  // Programs are small: every other seed, rounds cost nothing.
  if (options.seed % 2 == 1) context.partition.bytes_per_round = 0;
  if (options.as_xla) context.partition.policies = PartitionPolicies::AsXla();
  PerDeviceOptions way;
  way.after_propagation = [&](Module& propagated) {
    if (options.propagate_twice) CheckIdempotence(propagated, options.mode);
    tiled = TiledOpcodes(propagated);
    return VerifyModule(propagated);
  };
  Need("per-device module", MakePerDeviceModule(*partitioned, context, way));
  Need("partitioned", VerifyModule(*partitioned));
  if (options.optimize) Optimize(*partitioned, options.seed);
  CheckFixpoint("partitioned text", *partitioned);
  ExpectNoFindings(*partitioned);
  const Run run = Execute("partitioned run", *partitioned, *inputs, mesh);
  Compare("mismatch", *run.mesh, expected, options);

  if (!options.thorough) return tiled;
  mesh.fuse = false;
  Compare("mismatch unfused", *Execute("unfused run", *partitioned, *inputs, mesh).mesh, expected,
          options);
  auto single = Parse("plain", plain);
  inputs = cpu::Inputs::FromArrays(MakeInputs(*single, options));
  mesh = {};
  PassContext alone;
  Need("per-device module of one", MakePerDeviceModule(*single, alone));
  Need("partitioned for one", VerifyModule(*single));
  Compare("mismatch on one device", *Execute("run on one", *single, *inputs, mesh).mesh, expected,
          options);
  return tiled;
}

// Of a rank on its host: large workloads run out of it now and then.
constexpr size_t kSharedBytes = 16 << 20;

// On one rank of several.
struct RanksRun {
  std::vector<OutputArray> outputs;  // of rank 0
  int64_t sent_messages = 0, sent_bytes = 0;
  cpu::RankRunner::Predicted predicted;
};

RanksRun ExecuteOnRanks(const std::string& text, int count, const CheckOptions& options,
                        cpu::MeshRunOptions mesh) {
  RanksRun all;
  std::mutex mutex;
  const auto body = [&](mpi::Ranks& ranks) {
    auto module = Parse("partitioned", text);
    auto inputs = cpu::Inputs::Open("", options.seed);
    cpu::MeshRunOptions own = mesh;
    own.ranks = &ranks;
    // Programs are small: whatever several ranks would compute alike is divided.
    if (mesh.threads > 1) own.rank_speeds = {1, 1e30, 0};
    own.seed = options.seed;
    auto run = Need("ranks", MeshRun::Prepare(*module, **inputs, own));
    Need("ranks", run->Start());
    const mpi::Ranks::Traffic before = ranks.traffic();
    Need("ranks", run->Run({}));
    {
      const std::lock_guard<std::mutex> lock(mutex);
      all.sent_messages += ranks.traffic().messages - before.messages;
      all.sent_bytes += ranks.traffic().bytes - before.bytes;
      if (const cpu::RankRunner* runner = run->executor().ranks()) {
        // What all know is predicted by rank 0, rows of ragged-all-to-alls by those who send them.
        const auto& known = runner->predicted();
        const auto& rows = runner->sent_rows();
        const bool is_first = ranks.rank() == 0;
        all.predicted.messages += rows.messages + (is_first ? known.messages : 0);
        all.predicted.bytes += rows.bytes + (is_first ? known.bytes : 0);
        all.predicted.least_bytes += rows.least_bytes + (is_first ? known.least_bytes : 0);
      }
    }
    for (size_t k = 0; k < run->result_count(); ++k) run->GatherResult(k);
    if (ranks.rank() != 0) return;
    for (size_t k = 0; k < run->result_count(); ++k) all.outputs.push_back(run->Output(k));
  };
  // With one thread on hosts of their own; with more in pairs, which share even little messages.
  mpi::RanksOptions sharing;
  sharing.least_shared_bytes = 1;
  const mpi::InProcessHosts hosts =
      mesh.threads > 1 ? mpi::InProcessHosts{kSharedBytes, 2} : mpi::InProcessHosts{};
  RunOnRanks(count, body, sharing, hosts);
  return all;
}

// Returns what was sent, for people.
std::string CheckOnRanks(const std::string& text, int count, const CheckOptions& options) {
  auto module = Parse("input", text);
  cpu::MeshRunOptions mesh;
  mesh.grid = CountDevices(*module);
  PassContext context;
  if (!IsPartitioned(*module)) Need("per-device module", MakePerDeviceModule(*module, context));
  const std::string partitioned = PrintModule(*module);
  const RanksRun one = ExecuteOnRanks(partitioned, 1, options, mesh);
  std::string sent;
  for (const int threads : {1, 2}) {
    mesh.threads = threads;
    const RanksRun several = ExecuteOnRanks(partitioned, count, options, mesh);
    for (size_t k = 0; k < one.outputs.size(); ++k) {
      const OutputArray& want = one.outputs[k];
      const OutputArray& got = several.outputs.at(k);
      if (got.dims == want.dims && got.data == want.data) continue;
      size_t at = 0;
      while (at < want.data.size() && at < got.data.size() && got.data[at] == want.data[at]) ++at;
      Failed("ranks differ", fmt::format("output {} of {} ranks with {} threads: byte {} of {}", k,
                                         count, threads, at, want.data.size()));
    }
    if (several.sent_bytes != several.predicted.bytes ||
        several.sent_messages != several.predicted.messages) {
      Failed("wire bytes", fmt::format("{} bytes in {} messages were sent, {} in {} predicted",
                                       several.sent_bytes, several.sent_messages,
                                       several.predicted.bytes, several.predicted.messages));
    }
    const auto least = static_cast<double>(std::max<int64_t>(several.predicted.least_bytes, 1));
    sent = fmt::format(
        "{} bytes in {} messages, as predicted; {:.3f} of the least", several.sent_bytes,
        several.sent_messages,
        several.sent_bytes == 0 ? 1.0 : static_cast<double>(several.sent_bytes) / least);
  }
  return sent;
}

// As `gshard-opt partition` prints it.
std::string TextOfPartition(const std::string& text) {
  auto module = Parse("input", text);
  PassContext context;
  Need("per-device module", MakePerDeviceModule(*module, context));
  return PrintModule(*module);
}

// What gshard-run makes of it, with all that verification looks at; it stops before it runs.
std::string TextOfRun(const std::string& text) {
  std::string printed;
  std::atomic<bool> stop{false};
  cpu::EmulateOptions options;
  options.verify = true;
  options.stop = &stop;
  options.threads = 1;
  options.passes.print_after = "partition";
  options.passes.sink = [&](std::string_view after) {
    printed = after;
    stop = true;
  };
  Need("run", cpu::Emulate(Parse("input", text), options));
  return printed;
}

Verdict Ends(const std::function<Verdict()>& check) {
  try {
    return check();
  } catch (const Ended& ended) {
    return ended.verdict;
  } catch (const InternalError& error) {
    return {Verdict::Kind::kFailed, fmt::format("internal error: {}", error.what())};
  } catch (const std::exception& error) {
    return {Verdict::Kind::kFailed, fmt::format("exception: {}", error.what())};
  }
}

}  // namespace

Verdict CheckProgram(const std::string& text, const std::string& plain,
                     const CheckOptions& options) {
  return Ends([&] { return Verdict{.tiled = Check(text, plain, options)}; });
}

Verdict CheckRanks(const std::string& text, int ranks, const CheckOptions& options) {
  try {
    return {.detail = CheckOnRanks(text, ranks, options)};
  } catch (const Ended& ended) {
    return ended.verdict;
  }
}

Verdict CheckOneWay(const std::string& text) {
  return Ends([&]() -> Verdict {
    auto module = Parse("input", text);
    if (IsPartitioned(*module)) return {Verdict::Kind::kSkipped, "partitioned already"};
    const DeviceGrid devices = Need("devices", ReadDevices(*module));
    if (devices.partitions == 1) return {Verdict::Kind::kSkipped, "one partition"};
    const std::string partitioned = TextOfPartition(text), run = TextOfRun(text);
    if (partitioned != run) Failed("not one way", FirstDifference(partitioned, run));
    return {};
  });
}

std::string PartitionedText(const std::string& text) {
  try {
    auto module = Parse("input", text);
    std::string propagated;
    PassContext context;
    PerDeviceOptions way;
    way.after_propagation = [&](Module& whole) {
      propagated = PrintModule(whole);
      return Expected<void>();
    };
    Need("per-device module", MakePerDeviceModule(*module, context, way));
    return propagated + "\n" + PrintModule(*module);
  } catch (const Ended& ended) {
    return ended.verdict.detail;
  }
}

}  // namespace gshard::property
