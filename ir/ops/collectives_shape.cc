// Collectives and channels. Group sizes that depend on the module are checked by the verifier; here
// results must be consistent with the operands and with groups of a listed size.
#include <algorithm>

#include "ir/ops/shape_rules.h"
#include "ir/replica_groups.h"

namespace gshard {

namespace {

Problem CheckOperands(const OpView& op) {
  if (op.operands.empty()) return ProblemOf("{} needs an operand", OpcodeName(op.opcode));
  return CheckArrays(op);
}

Problem CheckDimension(const OpView& op) {
  const int64_t dim = op.as<CollectiveAttributes>().dimension;
  if (dim == -1) return ProblemOf("{} needs dimensions={{..}}", OpcodeName(op.opcode));
  for (const Shape* operand : op.operands) {
    if (Problem problem = CheckDimIndex("dimensions", dim, operand->rank())) return problem;
  }
  return std::nullopt;
}

// The listed group size, 0 if the text does not list groups of one size.
int64_t ListedGroupSize(const OpView& op) {
  const ReplicaGroups* groups = op.as<CollectiveAttributes>().replica_groups;
  if (groups == nullptr || groups->tiles() == nullptr) return 0;
  return groups->tiles()->dim(1);
}

// The shape a collective of one or several operands has: that of the operand, or a tuple.
const Shape* OperandsAsResult(Context& ctx, const OpView& op) {
  return op.operands.size() == 1 ? op.operands[0]->bare() : ctx.Tuple(op.operands)->bare();
}

// Like OperandsAsResult with `dimension` grown or shrunk to what `declared` says; where nothing is
// declared, by the listed group size.
ShapeResult Resized(Context& ctx, const OpView& op, const Shape* declared, bool grow) {
  const int64_t dim = op.as<CollectiveAttributes>().dimension;
  const size_t n = op.operands.size();
  if (declared != nullptr && n > 1 && (!declared->IsTuple() || declared->elements().size() != n)) {
    return Wrong("{} of {} operands returns a tuple of {}, found {}", OpcodeName(op.opcode), n, n,
                 Text(declared));
  }
  int64_t ratio = declared == nullptr ? ListedGroupSize(op) : 0;
  if (declared == nullptr && ratio == 0) {
    return Wrong("the result shape of {} must be given", OpcodeName(op.opcode));
  }
  std::vector<const Shape*> results;
  for (size_t i = 0; i < n; ++i) {
    const Shape* x = op.operands[i];
    const int64_t size = x->dim(dim);
    ResultDims dims(x);
    int64_t target = 0;
    if (declared != nullptr) {
      const Shape* result = n == 1 ? declared : declared->element(static_cast<int64_t>(i));
      const int64_t rank = result->IsArray() ? result->rank() : -1;
      target = rank == x->rank() ? result->dim(dim) : -1;
      if (target != Shape::kUnbounded && size != Shape::kUnbounded) {
        const int64_t larger = grow ? target : size, smaller = grow ? size : target;
        if (target < 0 || (smaller == 0 ? larger != 0 : larger % smaller != 0)) {
          return Wrong(
              "dim {} of the result of {} must be {} {}, found {}", dim, OpcodeName(op.opcode),
              grow ? "a multiple of that of" : "a divisor of that of", Text(x), Text(result));
        }
        if (smaller != 0) {
          if (ratio != 0 && ratio != larger / smaller) {
            return Wrong("the results of {} must change dim {} by one factor, found {} and {}",
                         OpcodeName(op.opcode), dim, ratio, larger / smaller);
          }
          ratio = larger / smaller;
        }
      }
    } else if (size == Shape::kUnbounded) {
      target = size;
    } else if (grow ? __builtin_mul_overflow(size, ratio, &target) : size % ratio != 0) {
      return Wrong("dim {} of {} does not divide into groups of {}", dim, Text(x), ratio);
    } else if (!grow) {
      target = size / ratio;
    }
    dims.Set(dim, target, x->IsDynamic(dim));
    results.push_back(dims.Make(ctx, x->dtype()));
  }
  return OneOrTuple(ctx, results);
}

// The body combines two scalars. Its type may differ from the operands' (variadic all-reduce shares
// one body), but it maps T, T to T.
Problem CheckCombiner(const OpView& op) {
  const Computation* body = op.called[0];
  if (Problem problem = CheckParameterCount(body, "computation", 2)) return problem;
  const Shape* root = body->root()->shape();
  if (!root->IsScalar()) {
    return ProblemOf("computation {} of {} must return a scalar, found {}", body->name(),
                     OpcodeName(op.opcode), Text(root));
  }
  for (size_t i = 0; i < 2; ++i) {
    if (Problem problem = CheckParameter(body, "computation", i, root)) return problem;
  }
  const DType type = op.operands[0]->dtype();
  if (op.operands.size() == 1 && !CommonType(type, root->dtype())) {
    return ProblemOf("computation {} of {} must combine {}[], found {}", body->name(),
                     OpcodeName(op.opcode), DTypeName(type), Text(root));
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferAllReduce(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckCombiner(op)) return Wrong(std::move(problem));
  return OperandsAsResult(ctx, op);
}

ShapeResult InferAllGather(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDimension(op)) return Wrong(std::move(problem));
  return Resized(ctx, op, op.declared, /*grow=*/true);
}

// (in, out), of several operands ((ins..), (outs..)).
ShapeResult InferAllGatherStart(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDimension(op)) return Wrong(std::move(problem));
  const Shape* out = nullptr;
  if (op.declared != nullptr) {
    if (!op.declared->IsTuple() || op.declared->elements().size() != 2) {
      return Wrong("all-gather-start returns (operands, results), found {}", Text(op.declared));
    }
    out = op.declared->element(1);
  }
  ShapeResult result = Resized(ctx, op, out, /*grow=*/true);
  if (!result) return result;
  const Shape* parts[] = {OperandsAsResult(ctx, op), *result};
  return ctx.Tuple(parts);
}

ShapeResult InferReduceScatter(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDimension(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckCombiner(op)) return Wrong(std::move(problem));
  return Resized(ctx, op, op.declared, /*grow=*/false);
}

ShapeResult InferAllToAll(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  const int64_t dim = op.as<CollectiveAttributes>().dimension;
  if (dim == -1) {
    for (const Shape* operand : op.operands) {
      if (!SameUpToDynamic(op.operands[0], operand)) {
        return Wrong("operands of all-to-all must have one shape, found {} and {}",
                     Text(op.operands[0]), Text(operand));
      }
    }
    return ctx.Tuple(op.operands)->bare();
  }
  if (op.operands.size() != 1) {
    return Wrong("all-to-all along a dim takes one operand, found {}", op.operands.size());
  }
  if (Problem problem = CheckDimension(op)) return Wrong(std::move(problem));
  return op.operands[0]->bare();
}

// input, output, input offsets, send sizes, output offsets, receive sizes
ShapeResult InferRaggedAllToAll(Context&, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  const Shape* input = op.operands[0];
  const Shape* output = op.operands[1];
  bool fits =
      input->dtype() == output->dtype() && input->rank() == output->rank() && input->rank() > 0;
  for (int64_t i = 1; fits && i < input->rank(); ++i) {
    fits = SizesAgree(input->dim(i), output->dim(i));
  }
  if (!fits) {
    return Wrong(
        "input and output of ragged-all-to-all must agree in all but dim 0, found {} and "
        "{}",
        Text(input), Text(output));
  }
  for (const Shape* list : op.operands.subspan(2)) {
    if (!IsInteger(list->dtype()) || list->rank() == 0 || !SameUpToDynamic(list, op.operands[2])) {
      return Wrong(
          "offsets and sizes of ragged-all-to-all must be integer arrays of one shape, "
          "found {} and {}",
          Text(op.operands[2]), Text(list));
    }
  }
  return output->bare();
}

namespace {

// The result a permute of these operands has; nothing if their number is wrong.
ShapeResult Permuted(Context& ctx, const OpView& op) {
  if (op.as<CollectiveAttributes>().slice_sizes.empty()) return OperandsAsResult(ctx, op);
  // input, output, input starts, output starts
  if (op.operands.size() != 4) {
    return Wrong("{} with slice_sizes takes 4 operands, found {}", OpcodeName(op.opcode),
                 op.operands.size());
  }
  return op.operands[1]->bare();
}

}  // namespace

ShapeResult InferCollectivePermute(Context& ctx, const OpView& op) {
  if (op.operands.empty()) return Wrong("collective-permute needs an operand");
  return Permuted(ctx, op);
}

// (in, out, state..)
ShapeResult InferCollectivePermuteStart(Context& ctx, const OpView& op) {
  if (op.operands.empty()) return Wrong("collective-permute-start needs an operand");
  ShapeResult out = Permuted(ctx, op);
  if (!out) return out;
  const bool in_place = !op.as<CollectiveAttributes>().slice_sizes.empty();
  std::vector<const Shape*> parts = {in_place ? op.operands[0]->bare() : *out, *out};
  if (op.declared == nullptr) {
    parts.insert(parts.end(), 2, ctx.Scalar(DType::kU32));
  } else if (op.declared->IsTuple()) {
    for (size_t i = 2; i < op.declared->elements().size(); ++i) {
      const Shape* state = op.declared->elements()[i];
      if (!state->IsScalar() || !IsInteger(state->dtype())) {
        return Wrong("collective-permute-start returns (in, out, u32[], u32[]), found {}",
                     Text(op.declared));
      }
      parts.push_back(state->bare());
    }
  }
  return ctx.Tuple(parts);
}

ShapeResult InferCollectiveBroadcast(Context& ctx, const OpView& op) {
  if (Problem problem = CheckOperands(op)) return Wrong(std::move(problem));
  const std::string_view dynamic = op.as<CollectiveAttributes>().has_dynamic_root;
  if (dynamic != "true") return OperandsAsResult(ctx, op);
  // The last operand is the root's position in the group.
  const Shape* root = op.operands.back();
  const bool is_single = root->IsArray() && root->rank() <= 1 && root->element_count() == 1;
  if (op.operands.size() < 2 || !is_single || !IsInteger(root->dtype())) {
    return Wrong(
        "the last operand of collective-broadcast with a dynamic root must be an integer "
        "scalar or one integer in an array, found {}",
        Text(root));
  }
  OpView values = op;
  values.operands = op.operands.first(op.operands.size() - 1);
  return OperandsAsResult(ctx, values);
}

ShapeResult InferPairDone(Context&, const OpView& op) {
  const Shape* x = op.operands[0];
  if (!x->IsTuple() || x->elements().size() < 2) {
    return Wrong("{} takes the result of its start, (operand, result, ..), found {}",
                 OpcodeName(op.opcode), Text(x));
  }
  return x->element(1)->bare();
}

// --- channels: send (data, token) -> (data, u32[], token[]) -> done token[];
// recv (token) -> (data, u32[], token[]) -> done (data, token[])

namespace {

Problem CheckToken(const OpView& op, size_t index) {
  if (op.operands[index]->IsToken()) return std::nullopt;
  return ProblemOf("operand {} of {} must be a token, found {}", index, OpcodeName(op.opcode),
                   Text(op.operands[index]));
}

Problem CheckTransfer(std::string_view opcode, const Shape* shape) {
  if (shape->IsTuple() && shape->elements().size() == 3 && shape->element(1)->IsScalar() &&
      shape->element(1)->dtype() == DType::kU32 && shape->element(2)->IsToken()) {
    return std::nullopt;
  }
  return ProblemOf("the shape of {} must be (data, u32[], token[]), found {}", opcode, Text(shape));
}

}  // namespace

ShapeResult InferSend(Context& ctx, const OpView& op) {
  if (Problem problem = CheckToken(op, 1)) return Wrong(std::move(problem));
  const Shape* parts[] = {op.operands[0]->bare(), ctx.Scalar(DType::kU32), ctx.Token()};
  return ctx.Tuple(parts);
}

ShapeResult InferSendDone(Context& ctx, const OpView& op) {
  if (Problem problem = CheckTransfer("send", op.operands[0])) return Wrong(std::move(problem));
  return ctx.Token();
}

ShapeResult InferRecv(Context&, const OpView& op) {
  if (Problem problem = CheckToken(op, 0)) return Wrong(std::move(problem));
  if (op.declared == nullptr) return Wrong("the result shape of recv must be given");
  if (Problem problem = CheckTransfer("recv", op.declared)) return Wrong(std::move(problem));
  return op.declared->bare();
}

ShapeResult InferRecvDone(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  if (Problem problem = CheckTransfer("recv", x)) return Wrong(std::move(problem));
  const Shape* parts[] = {x->element(0)->bare(), ctx.Token()};
  return ctx.Tuple(parts);
}

ShapeResult InferInfeed(Context&, const OpView& op) {
  if (Problem problem = CheckToken(op, 0)) return Wrong(std::move(problem));
  const Shape* to = op.declared;
  if (to == nullptr) return Wrong("the result shape of infeed must be given");
  if (!to->IsTuple() || to->elements().size() != 2 || !to->element(1)->IsToken()) {
    return Wrong("infeed returns (data, token[]), found {}", Text(to));
  }
  return to->bare();
}

ShapeResult InferOutfeed(Context& ctx, const OpView& op) {
  if (Problem problem = CheckToken(op, 1)) return Wrong(std::move(problem));
  const Shape* fed = op.as<OutfeedAttributes>().shape;
  if (fed != nullptr && !SameUpToDynamic(fed, op.operands[0])) {
    return Wrong("outfeed_shape must be that of the data, {}, found {}", Text(op.operands[0]),
                 Text(fed));
  }
  return ctx.Token();
}

}  // namespace gshard
