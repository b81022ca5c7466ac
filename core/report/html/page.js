// The page as a whole: verdict, source lines, the panel of one instruction, search, theme.
const D = JSON.parse(document.getElementById('gshard-data').textContent);
const R = D.report;
D.timeline.events = D.timeline.events.map(([name, work, stream, start, end, trips, parent, critical]) =>
  ({name, work, stream, start, end, trips, parent, critical}));

function verdictSection() {
  const memory = R.memory, limit = D.memory.limit_bytes, name = D.memory.limit_name || 'the limit';
  const node = section('verdict', 'Verdict');
  if (limit > 0) {
    const over = memory.peak_bytes - limit;
    node.append(el('p', {class: 'verdict ' + (over > 0 ? 'over' : 'fits')}, over > 0 ?
      `does NOT fit ${name} (${bytes(limit)}): over by ${bytes(over)}` : `fits ${name} (${bytes(limit)}): ${bytes(memory.peak_bytes)}`));
  }
  const fact = (value, label) => el('div', {class: 'fact'}, el('b', {}, value), el('span', {}, label));
  node.append(el('div', {class: 'facts'}, fact(seconds(R.step_time_s), 'step time'), fact(bytes(memory.peak_bytes), 'peak memory a device'),
    fact(percent(R.mfu), 'utilisation (MFU)'), fact(percent(R.step_time_s > 0 ? R.exposed_communication_s / R.step_time_s : 0), 'exposed communication'),
    fact(flops(R.flops_per_device), 'work a device'), fact(bytes(R.hbm_bytes_per_device), 'HBM traffic a device'),
    fact(bytes(R.collectives.reduce((sum, row) => sum + row.bytes_per_device, 0)), 'sent by a device')));
  const parts = [['dots', 'dot_s', 0], ['attention', 'attention_s', 3], ['movement', 'movement_s', 1], ['other work', 'other_s', 4], ['exposed communication', 'exposed_communication_s', 2], ['bubble', 'bubble_s', 5]]
    .map(([label, key, hue]) => [label, R.breakdown[key] || 0, hue]).filter(([, value]) => value > 0);
  if (parts.length > 0) {
    node.append(el('div', {class: 'parts'}, ...parts.map(([label, value, hue]) => el('span', {style: `background:${color(hue)};flex:${value / R.step_time_s} 0 0`,
      on: tipOf(() => `${label}: ${seconds(value)}, ${percent(value / R.step_time_s)}`)}, value > 0.08 * R.step_time_s ? `${label} ${percent(value / R.step_time_s)}` : ''))),
      legend(parts.map(([label, value, hue]) => [color(hue), `${label} ${seconds(value)}`])));
  }
  node.append(el('h3', {}, D.findings.length === 0 ? 'Findings' : D.findings.length === 1 ? 'The worst finding' : `The ${['two', 'three'][D.findings.length - 2]} worst findings`));
  if (D.findings.length === 0) node.append(el('p', {class: 'empty'}, 'Nothing stands out.'));
  node.append(el('ol', {class: 'findings'}, ...D.findings.map(finding => {
    const fix = el('p', {class: 'fix'});
    finding.fix.split('`').forEach((text, i) => fix.append(i % 2 ? el('code', {}, text) : text));
    const show = el('a', {href: '#' + finding.view, on: {click: () => { if (finding.name) setTimeout(() => select(finding.name)); }}}, 'show');
    return el('li', {}, el('b', {}, finding.title), el('span', {}, finding.detail), fix, show);
  })));
  const notes = [];
  if (R.dense_ragged_dot_groups > 1) notes.push(`XLA for this chip makes ragged-dots dense: every row meets the matrices of all groups, up to ${R.dense_ragged_dot_groups} times the work.`);
  if (R.unknown_trip_counts > 0) notes.push(`${R.unknown_trip_counts} while loop${R.unknown_trip_counts > 1 ? 's' : ''} with no known trip count are counted once.`);
  if (R.python_partitioned_calls > 0) notes.push(`${R.python_partitioned_calls} custom call${R.python_partitioned_calls > 1 ? 's are' : ' is'} partitioned by Python code that the text does not hold: cut by the sharding rules.`);
  if (R.unknown_calls.length > 0) notes.push(`Priced by what they read and write alone: custom calls to ${R.unknown_calls.join(', ')}.`);
  if (R.mean_branch_step_time_s < R.step_time_s * 0.999) notes.push(`Conditionals take their dearest branch; with the mean of all it would be ${seconds(R.mean_branch_step_time_s)}.`);
  if (notes.length > 0) node.append(el('p', {class: 'dim'}, notes.join(' ')));
}

function sourceSection() {
  const node = section('source', 'Source');
  const lines = new Map(), of = key => lines.get(key) || lines.set(key, {key, time_s: 0, flops: 0, bytes: 0, communication_bytes: 0, peak: 0}).get(key);
  for (const row of R.by_source) Object.assign(of(row.key), row);
  for (const row of R.memory.at_peak) of(row.source || '').peak += row.bytes;
  const work = [
    {title: 'time', right: true, value: row => row.time_s, text: row => seconds(row.time_s)},
    {title: 'of the step', right: true, value: row => row.time_s, text: row => percent(row.time_s / (R.step_time_s || 1))},
    {title: 'work', right: true, value: row => row.flops, text: row => flops(row.flops)},
    {title: 'HBM', right: true, value: row => row.bytes, text: row => bytes(row.bytes)},
    {title: 'sent', right: true, value: row => row.communication_bytes, text: row => bytes(row.communication_bytes)},
  ];
  const first = title => ({title, long: true, value: row => row.key || '(none)'});
  if (lines.size > 1 || !lines.has('')) {
    node.append(table([first('source line'), ...work, {title: 'alive at the peak', right: true, value: row => row.peak, text: row => bytes(row.peak)}], [...lines.values()], {sort: 1}));
  } else {
    node.append(el('p', {class: 'empty'}, 'The text names no source lines. From JAX: as_text(\'hlo\', debug_info=True).'));
  }
  if (R.by_group.length > 0) node.append(el('h3', {}, 'By group'), table([first('group'), ...work], R.by_group, {sort: 1}));
  if (R.by_opcode.length > 0) node.append(el('h3', {}, 'By opcode'), table([first('opcode'), ...work], R.by_opcode, {sort: 1}));
}

// All that is known of the selected instruction.
function factsOf(name) {
  const facts = [];
  const add = (label, value) => { if (value !== undefined && value !== null && value !== '') facts.push([label, value]); };
  const held = R.memory.at_peak.filter(row => row.name === name), kernel = R.kernels.find(row => row.name === name), call = R.collective_calls.find(row => row.name === name);
  const event = D.timeline.events.find(row => row.name === name);
  const any = held[0] || kernel || call || {};
  add('op_name', any.op_name);
  add('source', any.source);
  for (const row of held) {
    add('at the peak', `${bytes(row.bytes)} (${row.class}), ${percent(row.bytes / R.memory.peak_bytes)}`);
    add('on a device', row.shape);
    add('global', row.global_shape && `${row.global_shape} ${row.sharding}`);
    add('copies along', row.free_axes);
  }
  if (kernel) add('kernel', `${kernel.class}, ${count(kernel.count)} × ${seconds(kernel.time_s / (kernel.count || 1))}, ${flops(kernel.flops)}, ${bytes(kernel.bytes)} of memory traffic`);
  if (call) {
    add('collective', `${call.kind} over ${call.axes.join(' + ') || 'no axis'}, groups of ${call.group_size}`);
    add('in a step', `${count(call.count)} times, ${bytes(call.bytes_per_device)}, ${seconds(call.time_s)}, exposed ${seconds(call.exposed_s)}`);
    add('because of', call.cause);
  }
  if (event && !kernel && !call) add('timeline', `${event.work}, ${seconds(event.end - event.start)}`);
  return facts;
}
function panel() {
  const aside = el('aside', {role: 'dialog', 'aria-label': 'Selected instruction'});
  document.body.append(aside);
  const close = () => { select(null); history.replaceState(null, '', location.pathname + location.search); };
  selection.listeners.push(name => {
    aside.style.display = name === null ? 'none' : 'block';
    if (name === null) return;
    const facts = factsOf(name);
    aside.replaceChildren(el('button', {'aria-label': 'Close', on: {click: close}}, '×'), el('b', {}, name),
      facts.length === 0 ? el('p', {class: 'dim'}, 'It is alive or runs then, but is not among the largest.') :
        el('dl', {}, ...facts.flatMap(([label, value]) => [el('dt', {}, label), el('dd', {}, value)])));
  });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') close();
    if (event.key === '/' && !/INPUT|SELECT/.test(document.activeElement.tagName)) { event.preventDefault(); document.querySelector('input[type=search]').focus(); }
  });
}

document.body.append(tip);
tools();
verdictSection();
memorySection();
collectiveSection();
timelineSection();
if (R.pipeline) pipelineSection();
workSection();
shardingSection();
sourceSection();
panel();
if (location.hash.startsWith('#i=')) select(decodeURIComponent(location.hash.slice(3)));
else if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
