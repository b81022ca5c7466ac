#include "core/autodiff/forward_results.h"

#include <algorithm>

namespace gshard {
namespace {

// The sharding of a tuple that has got `more` elements. They are manual where the tuple is in a
// region that is manual in all axes: propagation takes what says nothing in a tuple of manual
// values for replicated, and each device has its own values there.
const Sharding* Extended(Context& context, const Sharding* sharding, const Shape* old,
                         size_t more) {
  if (sharding == nullptr || sharding->kind != ShardingKind::kTuple) return nullptr;
  std::vector<const Sharding*> leaves(sharding->elements.begin(), sharding->elements.end());
  const bool is_manual =
      std::ranges::any_of(leaves, [](const Sharding* leaf) { return leaf->IsManual(); });
  leaves.resize(At(old->leaf_count()) + more, is_manual ? context.Manual() : context.Unknown());
  return context.TupleOf(std::move(leaves));
}

// Gives the tuple x the shape `extended`; uses of it as a whole see the old elements.
void ExtendInPlace(Module& module, Instruction* x, const Shape* extended) {
  Computation* computation = x->parent();
  const Shape* old = x->shape();
  const size_t more = extended->elements().size() - old->elements().size();
  std::vector<Instruction*> whole;
  for (Instruction* user : computation->instructions()) {
    if (user->opcode() == Opcode::kGetTupleElement) continue;
    if (std::ranges::find(user->operands(), x) != user->operands().end()) whole.push_back(user);
  }
  const bool is_root = computation->root() == x;
  x->set_sharding(Extended(module.context(), x->sharding(), old, more));
  x->set_shape(extended);
  if (whole.empty() && !is_root) return;
  Builder builder(module, computation);
  builder.set_origin(x);
  std::vector<Instruction*> elements;
  for (int64_t i = 0; i < static_cast<int64_t>(old->elements().size()); ++i) {
    elements.push_back(builder.GetTupleElement(x, i));
  }
  Instruction* tuple = builder.Tuple(elements);
  tuple->set_shape(old);
  for (Instruction* user : whole) {
    for (int64_t i = 0; i < user->operand_count(); ++i) {
      if (user->operand(i) == x) user->set_operand(i, tuple);
    }
  }
  if (is_root) computation->set_root(tuple);
}

std::vector<Instruction*> Elements(Builder& builder, Instruction* tuple) {
  std::vector<Instruction*> elements;
  for (size_t i = 0; i < tuple->shape()->elements().size(); ++i) {
    elements.push_back(builder.GetTupleElement(tuple, static_cast<int64_t>(i)));
  }
  return elements;
}

// The new instruction goes by the old one's name.
void TakeName(Module& module, Instruction* by, Instruction* old) {
  const std::string_view name = old->name();
  old->set_name(by->name());
  by->set_name(name);
  (void)module;
}

const Shape* ShapeOf(Context& context, std::span<Instruction* const> elements) {
  std::vector<const Shape*> shapes;
  for (const Instruction* x : elements) shapes.push_back(x->shape());
  return context.Tuple(shapes);
}

}  // namespace

std::vector<Instruction*> StackOverIterations(GradientState& state, Instruction* loop,
                                              int64_t trip_count,
                                              std::span<Instruction* const> values) {
  if (values.empty()) return {};
  Module& module = state.module;
  Context& context = module.context();
  const size_t first = loop->parent()->instructions().size();
  Builder outer(module, loop->parent());
  outer.set_origin(loop);
  std::vector<Instruction*> inits = Elements(outer, state.Current(loop->operand(0)));
  const int64_t counter = static_cast<int64_t>(inits.size());
  inits.push_back(outer.ScalarInt(DType::kS32, 0));
  for (const Instruction* value : values) {
    std::vector<int64_t> dims(value->shape()->dims().begin(), value->shape()->dims().end());
    dims.insert(dims.begin(), trip_count);
    inits.push_back(outer.Zero(context.Array(value->shape()->dtype(), dims)));
  }
  Instruction* init = outer.Tuple(inits);

  Computation* body = loop->called(1);
  const Shape* shape = ShapeOf(context, inits);
  ExtendInPlace(module, body->parameter(0), shape);
  ExtendInPlace(module, loop->called(0)->parameter(0), shape);
  Builder inner(module, body);
  inner.set_origin(loop);
  Instruction* parameter = body->parameter(0);
  Instruction* old_root = state.Current(body->root());
  std::vector<Instruction*> next = Elements(inner, old_root);
  Instruction* iteration = inner.GetTupleElement(parameter, counter);
  next.push_back(inner.Add(iteration, inner.ScalarInt(DType::kS32, 1)));
  for (size_t k = 0; k < values.size(); ++k) {
    Instruction* stack = inner.GetTupleElement(parameter, counter + 1 + static_cast<int64_t>(k));
    std::vector<int64_t> dims(stack->shape()->dims().begin(), stack->shape()->dims().end());
    dims[0] = 1;
    Instruction* value = inner.Reshape(state.Current(values[k]), dims);
    next.push_back(inner.DynamicUpdateDim(stack, value, 0, iteration));
  }
  Instruction* root = inner.Tuple(next);
  TakeName(module, root, old_root);
  root->set_sharding(Extended(context, old_root->sharding(), old_root->shape(), values.size() + 1));
  body->set_root(root);
  ExtendInPlace(module, loop, shape);
  loop->set_operand(0, init);
  // What XLA knew of the loop's buffers holds no longer; how often it runs does.
  std::vector<Instruction*> stacks;
  for (size_t k = 0; k < values.size(); ++k) {
    stacks.push_back(outer.GetTupleElement(loop, counter + 1 + static_cast<int64_t>(k)));
  }
  state.AddForward(*loop->parent(), first);
  return stacks;
}

namespace {

// Elements a computation returns after `values` were appended to its root.
void ReturnFrom(GradientState& state, Computation* computation,
                std::span<Instruction* const> values, std::span<const Shape* const> shapes) {
  Builder builder(state.module, computation);
  Instruction* old_root = state.Current(computation->root());
  builder.set_origin(old_root);
  std::vector<Instruction*> elements;
  if (old_root->shape()->IsTuple()) {
    elements = Elements(builder, old_root);
  } else {
    elements.push_back(old_root);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    elements.push_back(values[i] != nullptr ? state.Current(values[i])
                                            : builder.Zero(shapes[i]->bare()));
  }
  Instruction* root = builder.Tuple(elements);
  if (old_root->shape()->IsTuple()) {
    TakeName(state.module, root, old_root);
    root->set_sharding(
        Extended(builder.context(), old_root->sharding(), old_root->shape(), values.size()));
  }
  computation->set_root(root);
}

}  // namespace

std::vector<Instruction*> ReturnMore(ReverseScope& scope, Instruction* call,
                                     std::span<const std::vector<Instruction*>> values) {
  const size_t count = values[0].size();
  if (count == 0) return {};
  GradientState& state = scope.state();
  Module& module = state.module;
  std::vector<const Shape*> shapes(count, nullptr);
  for (const std::vector<Instruction*>& of : values) {
    for (size_t i = 0; i < count; ++i) {
      if (of[i] != nullptr) shapes[i] = of[i]->shape()->bare();
    }
  }
  Instruction* start = call;
  while (start->opcode() == Opcode::kAsyncDone || start->opcode() == Opcode::kAsyncUpdate) {
    start = start->operand(0);
  }
  for (size_t k = 0; k < values.size(); ++k) {
    ReturnFrom(state, start->called(static_cast<int64_t>(k)), values[k], shapes);
  }
  const size_t before = call->parent()->instructions().size();
  Builder builder(module, call->parent());
  builder.set_origin(call);
  const Shape* old = call->shape();
  std::vector<const Shape*> elements;
  if (old->IsTuple()) {
    elements.assign(old->elements().begin(), old->elements().end());
  } else {
    elements.push_back(old);
  }
  const int64_t first = static_cast<int64_t>(elements.size());
  elements.insert(elements.end(), shapes.begin(), shapes.end());
  const Shape* extended = module.context().Tuple(elements);
  const bool stays = call->opcode() == Opcode::kCall || call->opcode() == Opcode::kConditional;
  if (stays && old->IsTuple()) {
    ExtendInPlace(module, call, extended);
  } else {
    // An array becomes a tuple; fusions and async pairs, which may not return just anything, calls.
    Instruction* made = stays ? module.Clone(call->parent(), call, call->operands(),
                                             module.UniqueName(call->name()))
                              : builder.Add(Opcode::kCall, start->operands(), CallAttributes{},
                                            extended, start->called(), call->name());
    made->set_shape(extended);
    made->set_sharding(nullptr);
    state.activity.Copy(call, made);
    std::vector<Instruction*> parts;
    for (int64_t i = 0; i < first; ++i) parts.push_back(builder.GetTupleElement(made, i));
    Instruction* value = old->IsTuple() ? builder.Tuple(parts) : parts[0];
    value->set_shape(old);
    value->set_sharding(call->sharding());
    TakeName(module, value, call);
    scope.Replace(call, value);
    call = made;
  }
  std::vector<Instruction*> results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(builder.GetTupleElement(call, first + static_cast<int64_t>(i)));
  }
  state.AddForward(*call->parent(), before);
  return results;
}

}  // namespace gshard
