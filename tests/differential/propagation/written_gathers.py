"""Gathers and scatters."""
from written_cases import ADD, case

# --- gathers and scatters
for k, (o, s) in enumerate([("devices=[2,4]<=[8]", ""), ("", "devices=[2,1,4]<=[8] l"), ("devices=[2,4]<=[8]", "devices=[2,1,4]<=[8] l"),
                            ("devices=[8,1]<=[8]", ""), ("devices=[1,8]<=[8]", "devices=[8,1]<=[8]"), ("replicated", ""), ("", "replicated"),
                            ("", "devices=[1,8]<=[8]"), ("devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[2,1,4]<=[8] l"),
                            ("maximal device=1", "devices=[2,1,4]<=[8] l")]):
    at = lambda x: f" @{x}" if x else ""
    for q, width in enumerate([64, 32]):
        case(f"gather_{k}_{q}", f"""
  o = f32[16,64] parameter(0){at(o)}
  s = s32[8,1] parameter(1){at(s)}
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  g = f32[8,{width}] gather(x, y), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}
  ROOT r = f32[8,{width}] negate(g)""")
        case(f"scatter_{k}_{q}", f"""
  o = f32[16,64] parameter(0){at(o)}
  s = s32[8,1] parameter(1){at(s)}
  w = f32[8,{width}] parameter(2)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,{width}] sine(w)
  g = f32[16,64] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,64] negate(g)""", ADD)
        case(f"scatter_updates_{k}_{q}", f"""
  o = f32[16,{width}] parameter(0)
  s = s32[8,1] parameter(1){at(s)}
  w = f32[8,{width}] parameter(2){at(o)}
  x = f32[16,{width}] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,{width}] sine(w)
  g = f32[16,{width}] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,{width}] negate(g)""", ADD)
for k, s in enumerate(["devices=[2,4]<=[8]", "devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "devices=[1,4,2]<=[8] l", "replicated"]):
    case(f"gather_back_{k}", f"""
  o = f32[16,64] parameter(0)
  s = s32[8,1] parameter(1)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  g = f32[8,64] gather(x, y), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,64}}
  ROOT r = f32[8,64] custom-call(g), custom_call_target="Sharding" @{s}""", parameters="true")
    case(f"scatter_back_{k}", f"""
  o = f32[16,64] parameter(0)
  s = s32[8,1] parameter(1)
  w = f32[8,64] parameter(2)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,64] sine(w)
  g = f32[16,64] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,64] custom-call(g), custom_call_target="Sharding" @{s}""", ADD, parameters="true")
PARALLEL = {
    "iota": "  i = s32[8,4,1] iota(), iota_dimension=0",
    "constant": "  ic = s32[8] constant({0, 1, 2, 3, 4, 5, 6, 7})\n  i = s32[8,4,1] broadcast(ic), dimensions={0}",
    "copied": "  i0 = s32[8,4,1] iota(), iota_dimension=0\n  i = s32[8,4,1] copy(i0)",
    "other": "  i = s32[8,4,1] iota(), iota_dimension=1",
}
for name, iota in PARALLEL.items():
    for k, (o, s, back) in enumerate([("devices=[8,1,1]<=[8]", "", ""), ("devices=[2,1,4]<=[8]", "", ""), ("", "devices=[2,4,1]<=[8]", ""),
                                      ("devices=[2,1,1,4]<=[8] l", "devices=[1,2,1,4]<=[4,2]T(1,0) l", ""), ("", "", "devices=[2,2,2]<=[8]")]):
        at = lambda x: f" @{x}" if x else ""
        case(f"gather_{name}_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  x = f32[8,16,64] sine(o)
{iota}
  j = s32[8,4,1] negate(j0)
  ij = s32[8,4,2] concatenate(i, j), dimensions={{2}}
  g = f32[8,4,64] gather(x, ij), offset_dims={{2}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=2, slice_sizes={{1,1,64}}
  h = f32[8,4,64] tanh(g){at(back)}
  ROOT r = f32[8,4,64] negate(h)""", parameters="true" if back else "")
        case(f"scatter_{name}_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  w = f32[8,4,64] parameter(2){at(back)}
  x = f32[8,16,64] sine(o)
  v = f32[8,4,64] sine(w)
{iota}
  j = s32[8,4,1] negate(j0)
  ij = s32[8,4,2] concatenate(i, j), dimensions={{2}}
  g = f32[8,16,64] scatter(x, ij, v), update_window_dims={{2}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=2, to_apply=addf
  ROOT r = f32[8,16,64] negate(g)""", ADD, parameters="true")
for k, (o, s, back) in enumerate([("devices=[8,1,1]<=[8]", "", ""), ("devices=[2,1,4]<=[8]", "", ""), ("", "devices=[2,4,1]<=[8]", ""),
                                  ("", "", "devices=[2,2,2]<=[8]")]):
    at = lambda x: f" @{x}" if x else ""
    case(f"gather_explicit_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  x = f32[8,16,64] sine(o)
  j = s32[8,4,1] negate(j0)
  g = f32[8,4,64] gather(x, j), offset_dims={{2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1,64}}
  h = f32[8,4,64] tanh(g){at(back)}
  ROOT r = f32[8,4,64] negate(h)""", parameters="true")
    case(f"scatter_explicit_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  w = f32[8,4,64] parameter(2){at(back)}
  x = f32[8,16,64] sine(o)
  v = f32[8,4,64] sine(w)
  j = s32[8,4,1] negate(j0)
  g = f32[8,16,64] scatter(x, j, v), update_window_dims={{2}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, index_vector_dim=2, to_apply=addf
  ROOT r = f32[8,16,64] negate(g)""", ADD, parameters="true")

# --- which index components pair up: in order, duplicates before unequal sizes before whole slices
for k, (pieces, index_map, sizes, offset, collapsed, batch, result) in enumerate([
        ([0, 0], "0,1", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"), ([0, 0], "1,0", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"),
        ([0, 0], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([0, 1], "0,1", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"),
        ([0, 1], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([0, 1], "0,1", "1,1,9", "2", "0,1", "6,6", "6,6,9"),
        ([0, None], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([1, 0], "1,0", "1,3,9", "2,3", "0", "6,8", "6,8,3,9")]):
    lines = ["o = f32[6,6,9] parameter(0) @devices=[2,2,1,2]<=[8] l"]
    for j, d in enumerate(pieces):
        if d is None:
            lines += [f"c{j} = s32[] constant(1)", f"q{j} = s32[{batch},1] broadcast(c{j}), dimensions={{}}"]
        else:
            lines += [f"q{j} = s32[{batch},1] iota(), iota_dimension={d}"]
    lines += [f"i = s32[{batch},{len(pieces)}] concatenate({', '.join(f'q{j}' for j in range(len(pieces)))}), dimensions={{2}}",
              f"t = f32[{result}] gather(o, i), offset_dims={{{offset}}}, collapsed_slice_dims={{{collapsed}}}, "
              f"start_index_map={{{index_map}}}, index_vector_dim=2, slice_sizes={{{sizes}}}",
              f"ROOT r = f32[{result}] negate(t)"]
    case(f"gather_pairs_{k}", "\n".join("  " + line for line in lines))
# Indices of one slice have no batch dims.
ONE = {
    "gather": "g = f32[16,64] gather(x, y), offset_dims={0,1}, collapsed_slice_dims={2}, start_index_map={2}, index_vector_dim=0, slice_sizes={16,64,1}",
    "gather_part": "g = f32[16,32] gather(x, y), offset_dims={0,1}, collapsed_slice_dims={2}, start_index_map={2}, index_vector_dim=0, slice_sizes={16,32,1}",
    "scatter": "g = f32[16,64,4] scatter(x, y, v), update_window_dims={0,1}, inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, index_vector_dim=0, to_apply=addf",
}
for name, line in ONE.items():
    shape = line.split("[")[1].split("]")[0]
    for k, (o, s, w, back) in enumerate([("devices=[2,4,1]<=[8]", "", "", ""), ("", "replicated", "", ""), ("replicated", "", "", ""), ("", "", "devices=[2,4]<=[8]", ""),
                                         ("", "", "replicated", ""), ("", "", "", "devices=[2,4]<=[8]"), ("", "", "", "replicated"), ("", "devices=[8]<=[8]", "", "")]):
        at = lambda x: f" @{x}" if x else ""
        end = back
        end = end.replace("[2,4]", "[2,4,1]") if name == "scatter" else end
        case(f"one_{name}_{k}", f"""
  o = f32[16,64,4] parameter(0){at(o)}
  s = s32[1] parameter(1){at(s)}
  w = f32[16,64] parameter(2){at(w)}
  x = f32[16,64,4] sine(o)
  y = s32[1] negate(s)
  v = f32[16,64] sine(w)
  {line}
""" + (f"  ROOT r = f32[{shape}] custom-call(g), custom_call_target=\"Sharding\" @{end}" if back else f"  ROOT r = f32[{shape}] negate(g)"),
             ADD, parameters="true")
