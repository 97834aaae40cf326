// Keeps docs/errors.md, the code table and the codes thrown in the source the same.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { errorCodes, FastprobeError } from '../src/errors.js';

const root = join(import.meta.dirname, '..');

describe('error codes', () => {
  it('are documented in docs/errors.md, with the same words, and no others are', () => {
    const rows = readFileSync(join(root, 'docs/errors.md'), 'utf8').matchAll(/^\| `(FASTPROBE_\w+)` \| (.+?) \|$/gm);
    expect(Object.fromEntries([...rows].map((row) => [row[1], row[2]]))).toEqual(errorCodes);
  });

  it('are each used in the source', () => {
    const source = ['src', 'native']
      .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile() && /\.(ts|cc|h)$/.test(entry.name) && entry.name !== 'errors.ts')
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
      .join('\n');
    const unused = Object.keys(errorCodes).filter((code) => !source.includes(code));
    expect(unused).toEqual([]);
  });

  it('come with message, hint and cause', () => {
    const cause = new Error('why');
    const error = new FastprobeError('FASTPROBE_BAD_ARGUMENT', 'pid must be positive', { hint: 'pass a pid', cause });
    expect(error).toMatchObject({ name: 'FastprobeError', code: 'FASTPROBE_BAD_ARGUMENT', hint: 'pass a pid', cause });
  });
});
