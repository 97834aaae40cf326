// Runs the examples: those in the README, and those in the doc comments of what src/index.ts exports.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compileSource, startTarget } from './support/targets.js';

const root = join(import.meta.dirname, '..');
// Below the package, so that 'fastprobe' is found as a user would find it.
const folder = join(root, 'build', `examples-${process.pid}`);

/** In examples this is the process to attach to: it runs examples/queue.c. */
const examplePid = '4242';

interface Example {
  readonly name: string;
  /** What it imports from, where it does not say. */
  readonly from: string;
  readonly code: string;
}

function inReadme(): Example[] {
  const text = readFileSync(join(root, 'README.md'), 'utf8');
  return [...text.matchAll(/```ts\n(.*?)```/gs)].map((match, index) => ({
    name: `readme-${index + 1}`,
    from: 'fastprobe',
    code: match[1] ?? '',
  }));
}

function inComments(): Example[] {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));
  return files.flatMap((file) => {
    const text = readFileSync(join(root, 'src', file), 'utf8');
    return [...text.matchAll(/@example\n(.*?)\*\//gs)].map((match, index) => ({
      name: `${file.replace(/[/.]/g, '-')}-${index + 1}`,
      from: file.startsWith('target/') ? 'fastprobe/target' : 'fastprobe',
      code: (match[1] ?? '').replace(/^ *\* ?/gm, ''),
    }));
  });
}

/** The example with the imports that it leaves out. */
function complete({ code, from }: Example): string {
  if (code.includes("from 'fastprobe")) return code;
  const names = ['attach', 'launch'].filter((name) => new RegExp(`\\b${name}\\(`).test(code));
  return `import { ${names.join(', ')} } from '${from}';\n${code}`;
}

const examples = [...inReadme(), ...inComments()];

beforeAll(() => {
  mkdirSync(folder, { recursive: true });
  for (const example of examples) writeFileSync(join(folder, `${example.name}.mts`), complete(example));
  const config = {
    extends: '../../tsconfig.json',
    compilerOptions: {
      noEmit: false,
      rootDir: '.',
      outDir: 'run',
      noUnusedLocals: false,
      typeRoots: ['../../node_modules/@types'],
    },
    include: ['*.mts'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', folder], { stdio: 'inherit' });
});

afterAll(() => rmSync(folder, { recursive: true }));

it.each(examples)('$name runs', async ({ name }) => {
  const program = await startTarget(compileSource(join(root, 'examples', 'queue.c'), ['-Og']));
  const script = readFileSync(join(folder, 'run', `${name}.mjs`), 'utf8').replaceAll(examplePid, String(program.pid));
  writeFileSync(join(folder, `${name}-now.mjs`), script);
  const result = spawnSync(process.execPath, [join(folder, `${name}-now.mjs`)], { encoding: 'utf8', timeout: 20_000 });
  expect(result.stderr).toBe('');
  expect(result.status).toBe(0);
  expect(Number(await program.line())).toBeGreaterThan(0);
});

it("the demo prints what the README says, but for the numbers and gdb's line", () => {
  const result = spawnSync(process.execPath, [join(root, 'dist', 'examples', 'demo.js')], { encoding: 'utf8' });
  expect(result.status).toBe(0);
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const shown = /This is what the demo prints:\n\n```text\n(.*?)```/s.exec(readme)?.[1] ?? '';
  expect(shape(result.stdout)).toBe(shape(shown));
});

/** Text without what differs from run to run. */
function shape(text: string): string {
  return text
    .replace(/with the same condition in gdb.*/, '')
    .replace(/0x[0-9a-f]+|[0-9]+(?:[.:][0-9]+)*/g, '#')
    .replace(/ +/g, ' ')
    .trim();
}
