// State and building blocks of the generator; the families of operations are in make_*.cc.
//
// A family's function appends nodes to the current body. It throws Rejected where it has drawn
// something that does not work; what it has appended is then taken back.
#ifndef GSHARD_TESTS_PROPERTY_PROGRAM_MAKER_H_
#define GSHARD_TESTS_PROPERTY_PROGRAM_MAKER_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/property/magnitude.h"
#include "tests/property/program.h"
#include "tests/property/random_program.h"

namespace gshard::property {

struct Rejected {};

class ProgramMaker {
 public:
  ProgramMaker(uint64_t seed, ProgramOptions options);
  Program Make();

  struct Family {
    const char* name;
    int weight;
    void (ProgramMaker::*make)();
  };
  static const std::vector<Family>& Families();
  // Few programs have one of these: they are drawn apart, so that the others do not depend on them.
  static const std::vector<Family>& RareFamilies();

 private:
  // --- chance
  int64_t Below(int64_t n) {
    if (n < 1) throw Rejected();
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n));
  }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Chance(int percent) { return Below(100) < percent; }
  // From the numbers for rarities.
  bool Rarely(int per_mille) { return rare_engine_() % 1000 < static_cast<uint64_t>(per_mille); }
  size_t Index(size_t n) { return static_cast<size_t>(Below(static_cast<int64_t>(n))); }
  template <typename T>
  const T& Pick(const std::vector<T>& choices) {
    if (choices.empty()) throw Rejected();
    return choices[Index(choices.size())];
  }
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Index(i)]);
  }

  // --- types
  int64_t RandomSize();
  Sizes RandomDims(int64_t rank);
  DType RandomDType();
  bool IsNumeric(DType dtype) const { return IsFloat(dtype) || IsInteger(dtype); }
  std::string ScalarLiteral(DType dtype, int64_t value) const;

  // --- nodes of the current body
  std::vector<Node>& nodes() { return program_.bodies[body_].nodes; }
  const ArrayType& TypeOf(size_t node) { return nodes()[node].type(); }
  bool IsNoisy(size_t node) { return magnitudes_[node][0].noise > 0; }
  // Appends; throws Rejected where the values would be useless or too many.
  size_t Emit(Node node);
  size_t Emit(Opcode opcode, ArrayType type, std::vector<size_t> operands,
              std::string attributes = {});
  size_t Parameter(ArrayType type);
  // Types of few bits have no more.
  static int64_t LargestLiteral(DType dtype, int64_t wanted);
  size_t Scalar(DType dtype, int64_t value);
  // What `opcode` starts from.
  size_t Identity(Opcode opcode, DType dtype);
  size_t Constant(ArrayType type);
  size_t Iota(ArrayType type);
  size_t AtLeast(size_t x, int64_t least);
  size_t BroadcastTo(size_t scalar, const Sizes& dims);
  // A value of this type: one that exists, or a new one.
  size_t Like(ArrayType type);
  size_t New(ArrayType type);
  // An existing array for which `accepts` holds; recent ones are likelier.
  size_t Any(const std::function<bool(size_t)>& accepts);
  size_t AnyOfRank(int64_t least);
  size_t AnyNumeric(int64_t least_rank = 0);
  std::string Combiner(Opcode opcode, DType dtype);
  Placement RandomPlacement(int64_t rank);
  Placement RandomShardyPlacement(int64_t rank);
  void MakeBarrier();
  void MarkGroup();
  void AnnotateResults(std::vector<size_t>& results);
  void MaybePlace(Node& node, int percent);

  // --- families
  void MakeUnary();
  void MakeBinary();
  void MakeTernary();
  void MakeConvert();
  void MakeBroadcast();
  void MakeReshape();
  void MakeTranspose();
  void MakeSlice();
  void MakePad();
  void MakeConcatenate();
  void MakeReverse();
  void MakeDynamicSlice();
  void MakeDynamicUpdateSlice();
  void MakeIota();
  void MakeSource();
  void MakeMarker();
  void MakeDot();
  void MakeConvolution();
  void MakeReduce();
  void MakeArgReduce();
  void MakeReduceWindow();
  void MakeCumulative();
  void MakeSelectAndScatter();
  void MakeGather();
  void MakeScatter();
  void MakeSort();
  void MakeTopK();
  void MakeFft();
  void MakeCholesky();
  void MakeTriangularSolve();
  void MakeRandomBits();
  void MakeBatchNorm();
  void MakeScan();
  void MakeBits();
  void MakeMap();
  void MakeWhile();
  void MakeConditional();
  void MakeCall();
  void MakeTuple();
  void MakeFunction();
  void MakeRareBinary();
  void MakeRareOrder();
  void MakeRaggedDot();
  void MakeScaledDot();
  void MakeManual();
  void MakeReduceSeveral();
  void MakeSortPairs();
  void MakeScatterReplace();
  void MakeDotWidened();
  void MakeManualExchange();
  void MakeManualAsync();

  struct ManualRegion;
  ManualRegion EnterRegion();
  void LeaveRegion(const ManualRegion& region, const Placement& placement, size_t local,
                   size_t whole);
  // Of a region's border in Shardy's form.
  void MarkBorder(Node& node, const ManualRegion& region);
  size_t EmitManual(const ManualRegion& region, Opcode opcode, ArrayType type,
                    std::vector<size_t> operands, std::string attributes = {});
  size_t EmitCollective(Opcode opcode, ArrayType type, const ManualRegion& region,
                        std::string attributes = {});
  std::vector<Sizes> GroupsAlong(size_t axis) const;
  size_t SplitByTiles(const ManualRegion& region);
  size_t SumOfTiles(const ManualRegion& region);
  size_t ShiftedByOneTile(const ManualRegion& region);
  size_t ExchangeTiles(const ManualRegion& region, size_t other);
  size_t PlaceNumber(const ManualRegion& region);
  void AddPlaceNumbers(const ManualRegion& region);
  size_t ManualConstant(const ManualRegion& region, ArrayType type, std::string payload,
                        int64_t magnitude);
  // The start of one and its end.
  size_t EmitAsync(Opcode start, Opcode done, ArrayType type, const ManualRegion& region,
                   std::string attributes = {});

  struct GatherDims;
  GatherDims RandomGatherDims(const Sizes& operand);
  // A body with one tuple or array parameter; `fill` appends its operations and returns the root.
  size_t MakeBody(const std::vector<ArrayType>& types, bool tuple,
                  std::vector<Magnitude> magnitudes, const std::function<size_t()>& fill);
  void RandomOperations(int64_t count);
  bool TryOne(const Family& family);
  size_t Parts(size_t tuple, size_t index);

  std::mt19937_64 engine_;
  // Decides about what few programs have: the others do not depend on it.
  std::mt19937_64 rare_engine_;
  ProgramOptions options_;
  Program program_;
  size_t body_ = 0;
  // Of the current body's nodes.
  std::vector<std::vector<Magnitude>> magnitudes_;
  Sizes sizes_;
  bool has_empty_dims_ = false;
  DType main_dtype_ = DType::kF32;
  int depth_ = 0;
};

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_PROGRAM_MAKER_H_
