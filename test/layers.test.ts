// Keeps the folders in their order: a layer imports only layers below it, and only src/target meets the addon.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const sourceRoot = join(import.meta.dirname, '..', 'src');

/** From the bottom up. A layer may import the ones before it. */
const layers = [
  'target',
  'binary',
  'isa',
  'lang',
  'patch',
  'channel',
  'probe',
  'debug',
  'verify',
  'memory',
  'overhead',
  'explore',
  'export',
  'cli',
  'dap',
];
/** Layers that know files and bytes only: they import no other layer. */
const pureLayers = ['binary', 'isa'];
/** Files beside the layers that every layer may import. */
const ground = ['errors.ts', 'address.ts'];

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const pattern = /(?:\bfrom|\bimport|\bimport\s*\(|\brequire\s*\()\s*['"]([^'"]+)['"]/g;
  return [...text.matchAll(pattern)].map((match) => match[1] ?? '');
}

/** What is wrong with `file` importing `specifier`, or undefined. */
function complaint(file: string, specifier: string): string | undefined {
  const from = relative(sourceRoot, file);
  const fromLayer = from.includes('/') ? from.slice(0, from.indexOf('/')) : undefined;
  if (specifier.includes('node-gyp-build') || specifier.endsWith('.node')) {
    return fromLayer === 'target' ? undefined : `${from} loads the addon; only src/target may`;
  }
  if (!specifier.startsWith('.')) return undefined;
  const to = relative(sourceRoot, join(dirname(file), specifier)).replace(/\.js$/, '.ts');
  if (to.startsWith('..')) return `${from} imports ${specifier}, outside src/`;
  if (fromLayer === undefined)
    return ground.includes(from) && !ground.includes(to) ? `${from} imports ${to}` : undefined;
  if (ground.includes(to)) return undefined;
  const toLayer = to.slice(0, to.indexOf('/'));
  if (toLayer === fromLayer) return undefined;
  if (!layers.includes(fromLayer)) return `${from} is in an unknown layer`;
  if (to.split('/').length > 2) return `${from} imports ${to}, which is inside another layer`;
  const below = pureLayers.includes(fromLayer) ? [] : layers.slice(0, layers.indexOf(fromLayer));
  return below.includes(toLayer) ? undefined : `${from} imports ${to}, which is not below it`;
}

describe('layers', () => {
  it('import downwards only, and only src/target loads the addon', () => {
    const complaints = sourceFiles(sourceRoot).flatMap((file) =>
      importsOf(file).flatMap((specifier) => complaint(file, specifier) ?? []),
    );
    expect(complaints).toEqual([]);
  });

  it('would be caught when they do not', () => {
    const inside = (path: string) => join(sourceRoot, path);
    expect(complaint(inside('target/x.ts'), '../probe/probe.js')).toContain('not below');
    expect(complaint(inside('isa/x.ts'), '../target/target.js')).toContain('not below');
    expect(complaint(inside('probe/x.ts'), 'node-gyp-build')).toContain('only src/target');
    expect(complaint(inside('errors.ts'), './target/target.js')).toContain('imports');
    expect(complaint(inside('target/x.ts'), '../../native/x.js')).toContain('outside');
    expect(complaint(inside('patch/x.ts'), '../isa/flow/y.js')).toContain('inside another layer');
    expect(complaint(inside('probe/x.ts'), '../patch/y.js')).toBeUndefined();
  });
});
