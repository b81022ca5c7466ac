// The page of a sweep: every mesh by step time, or time per example, and peak memory.
const hasStages = D.points.concat(D.failed).some(point => point.stages > 0);
const hasBatches = D.points.concat(D.failed).some(point => point.batch > 0);

function sweepSections() {
  const node = section('plot', 'Time and memory');
  node.append(el('p', {class: 'dim'}, `${D.points.length} ${hasStages || hasBatches ? 'points' : 'meshes'} on ${D.chip}; on the line: fits, and no other that does is better in time${hasBatches ? ' per example' : ''} or memory and no worse in the other.`),
    legend([['var(--accent)', 'optimal'], ['var(--c5)', 'others'], ...(D.points.some(point => !point.fits) ? [['var(--bad)', 'does not fit']] : [])]), chart(width => plot(width, D.points, D.memory_limit_bytes)));
  const list = section('meshes', 'Meshes');
  list.append(table([
    {title: 'mesh', value: row => meshText(row.mesh)},
    {title: 'optimal', value: row => row.pareto ? 'yes' : ''},
    ...(hasStages ? [{title: 'stages', right: true, value: row => row.stages, text: row => count(row.stages)},
      {title: 'micro-batches', right: true, value: row => row.microbatches, text: row => count(row.microbatches)},
      {title: 'schedule', value: row => row.schedule},
      {title: 'bubble', right: true, value: row => row.bubble_share, text: row => percent(row.bubble_share)}] : []),
    ...(hasBatches ? [{title: 'batch', right: true, value: row => row.batch, text: row => count(row.batch)}] : []),
    {title: 'devices', right: true, value: row => row.devices, text: row => count(row.devices)},
    {title: 'step time', right: true, value: row => row.step_time_s, text: row => seconds(row.step_time_s)},
    ...(hasBatches ? [{title: 'per example', right: true, value: row => comparedTime(row), text: row => seconds(comparedTime(row))}] : []),
    {title: 'compute', right: true, value: row => row.compute_time_s, text: row => seconds(row.compute_time_s)},
    {title: 'exposed', right: true, value: row => row.exposed_communication_s, text: row => seconds(row.exposed_communication_s)},
    {title: 'MFU', right: true, value: row => row.mfu, text: row => percent(row.mfu)},
    {title: 'peak memory', right: true, value: row => row.peak_bytes, text: row => bytes(row.peak_bytes)},
    {title: 'fits', value: row => row.fits ? 'yes' : 'no'},
    {title: 'pads', value: row => row.uneven.join(', ')},
  ], D.points, {sort: (hasStages ? 7 : 3) + (hasBatches ? 2 : 0), ascending: true, name: pointText}));
  if (D.failed.length > 0) {
    list.append(el('h3', {}, 'No estimate'), table([{title: 'mesh', value: pointText}, {title: 'why', long: true, value: row => row.message}], D.failed, {sort: 0}));
  }
}

document.body.append(tip);
tools();
sweepSections();
