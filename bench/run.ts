// npm run bench [-- name…]: runs the named benchmarks, or all, and prints their tables.

const benchmarks: Record<string, () => Promise<{ run(): Promise<void> }>> = {
  binary: () => import('./binary.js'),
  loop: () => import('./loop.js'),
  target: () => import('./target.js'),
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in benchmarks));
if (unknown.length > 0) {
  console.error(`no such benchmark: ${unknown.join(', ')}; there are: ${Object.keys(benchmarks).join(', ')}`);
  process.exit(1);
}
for (const [name, load] of Object.entries(benchmarks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n== ${name}`);
  await (await load()).run();
}
