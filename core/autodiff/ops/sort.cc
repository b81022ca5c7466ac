// sort, topk: adjoints go back to where elements came from.
//
//   (k, v) = sort(a, b)   the sort gets a third operand, iota, whose result p says where elements
//   came from:            a += scatter(0 at p, ck),  b += scatter(0 at p, cv)

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

// Element i of `c` along `dimension` goes to position p[i] of a zero array of size `size` there.
Instruction* Unpermute(Builder& b, Instruction* c, Instruction* positions, int64_t dimension,
                       int64_t size) {
  const Shape* shape = c->shape();
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  ScatterAttributes attributes;
  std::vector<int64_t> batching;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (d != dimension) batching.push_back(d);
  }
  const int64_t target[] = {dimension};
  attributes.inserted_window_dims = b.Copy(target);
  attributes.scatter_dims_to_operand_dims = b.Copy(target);
  attributes.input_batching_dims = b.Copy(batching);
  attributes.scatter_indices_batching_dims = b.Copy(batching);
  attributes.index_vector_dim = shape->rank();
  attributes.unique_indices = true;
  dims[At(dimension)] = size;
  const Shape* result = b.context().Array(shape->dtype(), dims);
  Instruction* operands[] = {b.Zero(result), positions, c};
  Computation* add[] = {b.BinaryComputation(Opcode::kAdd, shape->dtype())};
  return b.Add(Opcode::kScatter, operands, attributes, result, add);
}

// The comparator with two more parameters, which it does not look at.
Computation* WithOneMore(Module& module, const Computation& comparator) {
  Computation* copy = module.AddComputation(comparator.name());
  std::unordered_map<const Instruction*, Instruction*> value;
  for (const Instruction* x : comparator.instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
    value[x] = module.Clone(copy, x, operands, module.UniqueName(x->name()));
  }
  Builder builder(module, copy);
  const Shape* index = module.context().Scalar(DType::kS32);
  builder.Parameter(comparator.parameter_count(), index, "position_a");
  builder.Parameter(comparator.parameter_count() + 1, index, "position_b");
  copy->set_root(value.at(comparator.root()));
  return copy;
}

// Where each sorted element came from; the forward sort computes it from now on.
Instruction* Permutation(Instruction* x, ReverseScope& scope) {
  Module& module = scope.module();
  Instruction* instance = scope.Editable(x);
  const auto& sort = x->attributes<SortAttributes>();
  const size_t before = instance->parent()->instructions().size();
  Builder forward(module, instance->parent());
  forward.set_origin(instance);
  const Shape* first = x->operand(0)->shape();
  std::vector<Instruction*> operands(instance->operands().begin(), instance->operands().end());
  operands.push_back(
      forward.Iota(forward.context().Array(DType::kS32, first->dims()), sort.dimension));
  std::vector<const Shape*> shapes;
  for (const Instruction* operand : operands) shapes.push_back(operand->shape()->bare());
  Computation* called[] = {WithOneMore(module, *instance->called(0))};
  Instruction* extended =
      forward.Add(Opcode::kSort, operands, sort, forward.context().Tuple(shapes), called);
  const int64_t count = instance->operand_count();
  std::vector<Instruction*> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(forward.GetTupleElement(extended, i));
  Instruction* value = x->shape()->IsTuple() ? forward.Tuple(parts) : parts[0];
  value->set_sharding(instance->sharding());
  const std::string_view name = instance->name();
  instance->set_name(value->name());
  value->set_name(name);
  scope.state().activity.Copy(instance, value);
  scope.Replace(instance, value);
  Instruction* positions = forward.GetTupleElement(extended, count);
  scope.state().AddForward(*instance->parent(), before);
  return scope.Available(positions);
}

}  // namespace

Expected<void> GradSort(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const int64_t dimension = x->attributes<SortAttributes>().dimension;
  Instruction* positions = Permutation(x, scope);
  for (size_t i = 0; i < adjoints.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (adjoints[i] == nullptr || !scope.Wants(operand)) continue;
    scope.Add(operand, Unpermute(scope.builder(), adjoints[i], positions, dimension,
                                 operand->shape()->dim(dimension)));
  }
  return {};
}

// topk gives the positions itself. Also the custom call TopK.
Expected<void> GradTopK(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (adjoints[0] == nullptr || !scope.Wants(x->operand(0))) return {};
  Instruction* instance = scope.Editable(x);
  Builder forward(scope.module(), instance->parent());
  forward.set_origin(instance);
  Instruction* positions = scope.Available(LeafValue(forward, instance, 1));
  const Shape* shape = x->operand(0)->shape();
  const int64_t last = shape->rank() - 1;
  scope.Add(x->operand(0),
            Unpermute(scope.builder(), adjoints[0], positions, last, shape->dim(last)));
  return {};
}

}  // namespace gshard
