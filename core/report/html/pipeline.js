// Stages of a pipeline over its clock ticks, and what each comes to.
function pipelineSection() {
  const P = R.pipeline, node = section('pipeline', 'Pipeline');
  const fact = (value, label) => el('div', {class: 'fact'}, el('b', {}, value), el('span', {}, label));
  node.append(el('div', {class: 'facts'}, fact(percent(P.bubble_share), 'bubble'),
    ...(P.planned_bubble_share === undefined || P.padding_flops_per_device > 0 ? [] : [fact(percent(P.planned_bubble_share), 'bubble without waits for neighbours')]),
    fact(percent(P.recompute_share), 'recompute'), fact(P.imbalance.toFixed(2), 'busiest stage over the mean'),
    fact(seconds(P.transfer_s), 'transfers between ticks'), fact(seconds(P.span_s), `${count(P.tick_count)} ticks`)));
  node.append(el('p', {class: 'dim'}, `${P.stages.length} stages${P.microbatches > 0 ? `, ${count(P.microbatches)} micro-batches` : ''}${P.schedule ? ', ' + P.schedule : ''}. ` +
    (P.padding_flops_per_device > 0 ? `A shifting buffer: every stage computes at every tick, at the ends of the schedule on padding: ${flops(P.padding_flops_per_device)} of ${flops(P.flops_per_device + P.padding_flops_per_device)} a device.`
      : 'Stages hand on what they computed at the end of a tick: it is as long as its longest pass.')));
  const hue = {forward: 0, backward: 1, weights: 2, padding: 3, pass: 4};
  const kinds = [...new Set(P.passes.map(pass => pass.kind))].filter(kind => kind !== 'idle');
  node.append(legend([...kinds.map(kind => [color(hue[kind]), kind]), ...(P.padding_flops_per_device > 0 ? [] : [['var(--panel)', 'idle']])]), chart(width => pipelineChart(P, width, hue)));
  node.append(table([
    {title: 'stage', right: true, value: row => row.stage},
    {title: 'devices', long: true, value: row => row.devices.length > 8 ? `${row.devices.slice(0, 8).join(', ')}, … (${row.devices.length})` : row.devices.join(', ')},
    {title: 'busy', right: true, value: row => row.busy_s, text: row => seconds(row.busy_s)},
    {title: 'recompute', right: true, value: row => row.recompute_s, text: row => seconds(row.recompute_s)},
    {title: 'waits inside', right: true, value: row => row.exposed_communication_s, text: row => seconds(row.exposed_communication_s)},
    {title: P.padding_flops_per_device > 0 ? 'on padding' : 'idle', right: true, value: row => row.idle_s, text: row => seconds(row.idle_s)},
    {title: 'work', right: true, value: row => row.flops, text: row => flops(row.flops)},
    ...(P.padding_flops_per_device > 0 ? [{title: 'padded work', right: true, value: row => row.padding_flops, text: row => flops(row.padding_flops)}] : []),
    {title: 'sent', right: true, value: row => row.sent_bytes, text: row => bytes(row.sent_bytes)},
    {title: 'peak memory', right: true, value: row => row.peak_bytes, text: row => bytes(row.peak_bytes)},
  ], P.stages.map((row, stage) => ({...row, stage})), {sort: 0, ascending: true}));
}

// At most so many stages are drawn: more have no pixels.
const MOST_STAGES = 64;
function pipelineChart(P, width, hue) {
  const stages = Math.min(P.stages.length, MOST_STAGES), lane = stages > 16 ? 12 : 22, left = 60, top = 18;
  const height = top + lane * stages + 6, end = P.ticks.length > 0 ? P.span_s : 0;
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Passes of each stage over time'});
  if (end <= 0) return picture;
  const x = time => left + time / end * (width - left);
  for (const time of ticks(end, 6)) picture.append(svg('text', {x: x(time), y: 11, 'text-anchor': time === end ? 'end' : 'start'}, seconds(time)));
  for (let stage = 0; stage < stages; ++stage) {
    const y = top + stage * lane;
    picture.append(svg('text', {x: 4, y: y + lane / 2 + 4}, `stage ${stage}`), svg('rect', {x: left, y: y + 1, width: width - left, height: lane - 2, fill: 'var(--panel)'}));
    for (const tick of P.ticks) {
      const pass = P.passes[tick.pass[stage]];
      if (pass.kind === 'idle') continue;
      const number = tick.microbatch.length > 0 && tick.microbatch[stage] >= 0 ? tick.microbatch[stage] : null, start = tick.stage_s[stage], w = Math.max(0.5, x(start + pass.time_s) - x(start));
      picture.append(svg('rect', {x: x(start), y: y + 1, width: w, height: lane - 2, fill: color(hue[pass.kind]), stroke: 'var(--bg)', 'stroke-width': w > 3 ? 0.5 : 0,
        on: tipOf(() => `stage ${stage}: ${pass.kind}${number === null ? '' : `, micro-batch ${number}`}\n${seconds(pass.time_s)} from ${seconds(start)} on`)}));
      if (w > 16 && number !== null) picture.append(svg('text', {class: 'tile-text', x: x(start) + w / 2, y: y + lane / 2 + 4, 'text-anchor': 'middle', style: 'fill:#fff'}, number));
    }
  }
  return picture;
}
